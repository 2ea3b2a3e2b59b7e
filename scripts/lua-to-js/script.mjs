// Translates a script of lua/ to TypeScript on src/testing/lua-runtime.ts, statement by statement. It supports only the Lua 5.1 that these
// scripts use: anything else, and what Lua and JavaScript interpret differently, is an error that names the line.
import luaparse from 'luaparse';
import { Expressions } from './expressions.mjs';
import { Names } from './names.mjs';

const TYPES = { nothing: 'void', value: 'Value', several: 'Value[]' };

/** The script as a function of that name; `file` is for error messages. */
export function luaToTypeScript(source, name, file) {
  return new Script(source, file).asFunction(name);
}

class Script {
  #names;
  #expressions;
  #chunk;
  /** The comments that are not written yet. */
  #comments;
  /** Names that are assigned again somewhere. */
  #assigned;
  /** The result of the current function: nothing, a value or several. */
  #gives = 'value';
  #lastLine = 0;

  constructor(source, file) {
    this.#names = new Names(file);
    this.#expressions = new Expressions(this.#names, source);
    this.#chunk = parse(source, file);
    this.#comments = [...this.#chunk.comments];
    const assignments = [...nodesOf(this.#chunk)].filter(
      ({ type }) => type === 'AssignmentStatement',
    );
    this.#assigned = new Set(
      assignments.flatMap(({ variables }) => variables.map((target) => target.name)),
    );
  }

  asFunction(name) {
    const body = this.#body(this.#chunk);
    return `function ${name}(KEYS: Table, ARGV: Table, redis: RedisApi): Value {\n${body}\n}`;
  }

  /** The body of a function; its end returns nil. */
  #body({ body, loc }) {
    const text = this.#statements(body, loc);
    if (this.#gives === 'nothing' || returns(body)) return text;
    return `${text}\nreturn ${this.#result([])};`;
  }

  #block({ body, loc }, variables = [], kinds = []) {
    return this.#names.within(() => {
      for (const [i, variable] of variables.entries()) this.#names.declare(variable, kinds[i]);
      return `{\n${this.#statements(body, loc)}\n}`;
    });
  }

  #statements(body, { end }) {
    const texts = body.map((node) => {
      const text = this.#upTo(node.loc.start.line) + this.#statement(node);
      this.#lastLine = node.loc.end.line;
      return text;
    });
    return [...texts, this.#upTo(end.line - 1)].join('\n');
  }

  /** The comments up to this line, and the empty lines between them. */
  #upTo(line) {
    let text = '';
    const advance = (to) => {
      if (to > this.#lastLine + 1) text += '\n';
      this.#lastLine = to;
    };
    while (this.#comments[0]?.loc.start.line <= line) {
      const { value, loc } = this.#comments.shift();
      advance(loc.start.line);
      text += `//${value}\n`;
    }
    advance(line);
    return text;
  }

  #statement(node) {
    switch (node.type) {
      case 'LocalStatement':
        return this.#local(node);
      case 'AssignmentStatement':
        return this.#assignment(node);
      case 'CallStatement':
        return `${this.#expressions.call(node.expression)};`;
      case 'FunctionDeclaration':
        return this.#function(node);
      case 'ReturnStatement':
        return `return ${this.#result(node.arguments, node)};`;
      case 'BreakStatement':
        return 'break;';
      case 'IfStatement':
        return node.clauses.map((clause) => this.#clause(clause)).join(' else ');
      case 'WhileStatement':
        return `while (${this.#expressions.condition(node.condition)}) ${this.#block(node)}`;
      case 'ForNumericStatement':
        return this.#forRange(node);
      case 'ForGenericStatement':
        return this.#forEach(node);
      default:
        return this.#names.fail(node, `a ${node.type}`);
    }
  }

  #clause(clause) {
    if (clause.type === 'ElseClause') return this.#block(clause);
    return `if (${this.#expressions.condition(clause.condition)}) ${this.#block(clause)}`;
  }

  #forRange(node) {
    const { variable, start, end, step } = node;
    const limits = [start, end, ...(step ? [step] : [])];
    const range = limits.map((limit) => this.#expressions.value(limit)).join(', ');
    const block = this.#block(node, [variable], ['number']);
    return `for (const ${variable.name} of lua.range(${range})) ${block}`;
  }

  #forEach(node) {
    const [iterator, ...more] = node.iterators;
    if (more.length > 0 || iterator.base?.name !== 'ipairs' || iterator.arguments.length !== 1)
      this.#names.fail(node, 'iterators but ipairs');
    const list = this.#expressions.value(iterator.arguments[0]);
    const block = this.#block(node, node.variables, ['number', 'value']);
    const names = node.variables.map(({ name }) => (name === '_' ? '' : name));
    return `for (const [${names.join(', ')}] of ipairs(${list})) ${block}`;
  }

  #local({ variables, init }) {
    const names = variables.map(({ name }) => name);
    const isConst = !names.some((name) => this.#assigned.has(name));
    const isOne = names.length === 1 && init.length === 1;
    const { text, kind } = this.#names.before(variables, () =>
      isOne
        ? this.#expressions.one(init[0])
        : { text: this.#expressions.values(init), kind: 'value' },
    );
    for (const variable of variables) this.#names.declare(variable, isConst ? kind : 'value');
    if (init.length === 0) return `let ${names.map((name) => `${name}: Value`).join(', ')};`;
    const pattern = isOne ? names[0] : `[${names.join(', ')}]`;
    return isConst
      ? `const ${pattern} = ${text};`
      : `let ${pattern}: Value${isOne ? '' : '[]'} = ${text};`;
  }

  #assignment({ variables, init }) {
    const [target] = variables;
    if (variables.length > 1 || init.length > 1) {
      const names = variables.map((variable) => this.#names.variable(variable).text);
      return `[${names.join(', ')}] = ${this.#expressions.values(init)};`;
    }
    const value = this.#expressions.value(init[0]);
    if (target.type === 'Identifier') return `${this.#names.variable(target).text} = ${value};`;
    const table = this.#expressions.value(target.base);
    return `lua.set(${table}, ${this.#expressions.key(target)}, ${value});`;
  }

  #function(node) {
    const { identifier, isLocal, parameters, body } = node;
    if (!isLocal) this.#names.fail(node, 'functions that are not local');
    const isVariadic = parameters.at(-1)?.type === 'VarargLiteral';
    const named = isVariadic ? parameters.slice(0, -1) : parameters;
    const gives = this.#givenBy(body);
    this.#names.declare(identifier, { parameters: named.length, isVariadic, gives });
    const outer = this.#gives;
    this.#gives = gives;
    const text = this.#names.within(() => {
      for (const parameter of named) this.#names.declare(parameter, 'value');
      return this.#body(node);
    });
    this.#gives = outer;
    const list = named.map(({ name }) => `${name}?: Value`);
    if (isVariadic) list.push('...varargs: Value[]');
    return `function ${identifier.name}(${list.join(', ')}): ${TYPES[gives]} {\n${text}\n}`;
  }

  #givenBy(body) {
    const lists = returnsOf(body).map((node) => node.arguments);
    if (lists.some((list) => this.#areSeveral(list))) return 'several';
    return lists.some((list) => list.length === 1) ? 'value' : 'nothing';
  }

  #areSeveral(list) {
    return list.length > 1 || (list.length === 1 && this.#expressions.isSeveral(list[0]));
  }

  #result(list, node) {
    if (this.#gives === 'several') return this.#expressions.values(list);
    if (this.#areSeveral(list)) this.#names.fail(node, 'a script that returns several values');
    if (list.length === 1) return this.#expressions.value(list[0]);
    return this.#gives === 'nothing' ? '' : 'undefined';
  }
}

function parse(source, file) {
  try {
    const options = { luaVersion: '5.1', encodingMode: 'pseudo-latin1' };
    return luaparse.parse(source, { ...options, locations: true, ranges: true });
  } catch (error) {
    throw new Error(`${file}:${error.line}: ${error.message}`, { cause: error });
  }
}

/** Whether every path through these statements returns. */
function returns(body) {
  const last = body.at(-1);
  if (last?.type !== 'IfStatement') return last?.type === 'ReturnStatement';
  const { clauses } = last;
  return clauses.at(-1).type === 'ElseClause' && clauses.every((clause) => returns(clause.body));
}

/** All statements of the function with this body. */
function returnsOf(nodes) {
  return nodes.flatMap((node) => {
    if (node.type === 'ReturnStatement') return [node];
    if (node.type === 'FunctionDeclaration') return [];
    return returnsOf([...(node.body ?? []), ...(node.clauses ?? [])]);
  });
}

function* nodesOf(node) {
  if (node === null || typeof node !== 'object') return;
  yield node;
  for (const child of Object.values(node)) yield* nodesOf(child);
}
