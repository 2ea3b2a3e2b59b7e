// The names in a Lua script: which are visible, and what each of them is.

/** Names with another meaning in JavaScript, or in the output. */
const TAKEN = new Set([
  ...['arguments', 'await', 'case', 'catch', 'class', 'const', 'continue', 'debugger', 'default'],
  ...['delete', 'enum', 'eval', 'export', 'extends', 'finally', 'import', 'instanceof', 'let'],
  ...['new', 'static', 'super', 'switch', 'this', 'throw', 'try', 'typeof', 'undefined', 'var'],
  ...['void', 'with', 'yield', 'cjson', 'ipairs', 'lua', 'math', 'pcall', 'redis', 'string'],
  ...['table', 'tonumber', 'type', 'unpack', 'varargs'],
]);

export class Names {
  #file;
  /** A variable has a kind of value: number, string, boolean, table, or value, which may be any; a function has parameters and results. */
  #scopes = [
    new Map([
      ['KEYS', 'table'],
      ['ARGV', 'table'],
    ]),
  ];
  /** The names of the statement that declares them: not yet visible in it for Lua, but for JavaScript. */
  #beingDeclared = [];

  constructor(file) {
    this.#file = file;
  }

  fail({ loc }, what) {
    throw new Error(`${this.#file}:${loc.start.line}: lua-to-js does not know ${what}`);
  }

  /** With a scope of its own. */
  within(work) {
    this.#scopes.push(new Map());
    const text = work();
    this.#scopes.pop();
    return text;
  }

  declare(node, meaning) {
    const { name } = node;
    const scope = this.#scopes.at(-1);
    if (TAKEN.has(name)) this.fail(node, `how to write the name ${name}`);
    if (scope.has(name)) this.fail(node, `two ${name} in one block`);
    scope.set(name, meaning);
  }

  /** The keyword before the declaration of these. */
  before(variables, work) {
    this.#beingDeclared = variables.map(({ name }) => name);
    const result = work();
    this.#beingDeclared = [];
    return result;
  }

  variable(node) {
    const meaning = this.find(node.name);
    if (typeof meaning !== 'string') this.fail(node, `the variable ${node.name}`);
    if (this.#beingDeclared.includes(node.name))
      this.fail(node, `another ${node.name} than the one that is declared here`);
    return { text: node.name, kind: meaning };
  }

  find(name) {
    return this.#scopes.findLast((scope) => scope.has(name))?.get(name);
  }
}
