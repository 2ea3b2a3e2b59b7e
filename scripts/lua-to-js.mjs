// Writes a script of lua/ as TypeScript on src/testing/lua-runtime.ts, statement by statement. It knows no more of Lua 5.1 than these scripts use:
// anything else, and what Lua and JavaScript would understand differently, is an error that names the line.
import luaparse from 'luaparse';

/** The functions that a script may call, by what they give: a kind of value, or several values. */
const LIBRARY = {
  'cjson.encode': 'string',
  'math.ceil': 'number',
  'math.floor': 'number',
  'math.max': 'number',
  'math.min': 'number',
  'redis.call': 'value',
  'redis.error_reply': 'table',
  'redis.pcall': 'value',
  'string.byte': 'several',
  'string.find': 'several',
  'string.format': 'string',
  'string.match': 'several',
  'table.concat': 'string',
  'table.insert': 'nothing',
  pcall: 'several',
  tonumber: 'value',
  type: 'string',
  unpack: 'several',
};
const VARIADIC = ['redis.call', 'redis.pcall'];
const COMPARISONS = { '==': '===', '~=': '!==', '<': '<', '<=': '<=', '>': '>', '>=': '>=' };
const ARITHMETIC = { '+': '+', '-': '-', '*': '*', '/': '/', '^': '**' };

/** Names that mean something else in what is written. */
const TAKEN =
  /^(arguments|await|case|catch|class|const|continue|debugger|default|delete|enum|eval|export|extends|finally|import|instanceof|let|new|static|super|switch|this|throw|try|typeof|undefined|var|void|with|yield|cjson|ipairs|lua|math|pcall|string|table|tonumber|type|unpack|varargs)$/;

/** A function of that name; `file` is for what goes wrong. */
export function luaToTypeScript(source, name, file) {
  return new Script(source, file).asFunction(name);
}

class Script {
  #source;
  #file;
  #chunk;
  #comments;
  /** Names that get another value somewhere. */
  #assigned = new Set();
  /** What each name in sight is: a kind of value, or {parameters, isVariadic, gives} of a function. */
  #scopes = [new Map()];
  #function = { gives: 'value' };
  /** The names of the statement that declares them: not in sight in it for Lua, but for JavaScript. */
  #beingDeclared = [];
  #lastLine = 0;

  constructor(source, file) {
    this.#source = source;
    this.#file = file;
    const options = { luaVersion: '5.1', encodingMode: 'pseudo-latin1', locations: true };
    this.#chunk = luaparse.parse(source, { ...options, ranges: true });
    this.#comments = [...this.#chunk.comments];
    for (const { type, variables } of nodesOf(this.#chunk))
      if (type === 'AssignmentStatement')
        for (const target of variables) this.#assigned.add(target.name);
  }

  asFunction(name) {
    for (const known of ['KEYS', 'ARGV']) this.#scopes[0].set(known, 'table');
    const body = this.#body(this.#chunk);
    return `function ${name}(KEYS: Table, ARGV: Table, redis: RedisApi): Value {\n${body}\n}`;
  }

  #fail(node, what) {
    throw new Error(`${this.#file}:${node.loc.start.line}: lua-to-js.mjs does not know ${what}`);
  }

  // Statements.

  /** What a function does; its end gives nil. */
  #body({ body, loc }) {
    const { gives } = this.#function;
    const isAtEnd = gives !== 'nothing' && !returns(body);
    return this.#statements(body, loc) + (isAtEnd ? `\nreturn ${this.#result([])};` : '');
  }

  #block(node, variables = [], kinds = []) {
    this.#scopes.push(new Map());
    for (const [i, variable] of variables.entries()) this.#declare(variable, kinds[i]);
    const text = `{\n${this.#statements(node.body, node.loc)}\n}`;
    this.#scopes.pop();
    return text;
  }

  #statements(body, { end }) {
    const texts = body.map((node) => {
      const text = this.#before(node.loc.start.line) + this.#statement(node);
      this.#lastLine = node.loc.end.line;
      return text;
    });
    return [...texts, this.#before(end.line - 1)].join('\n');
  }

  /** The comments up to this line, and the empty lines in front of it. */
  #before(line) {
    let text = '';
    const advance = (to) => {
      if (to > this.#lastLine + 1) text += '\n';
      this.#lastLine = to;
    };
    while (this.#comments[0]?.loc.start.line <= line) {
      const comment = this.#comments.shift();
      advance(comment.loc.start.line);
      text += `//${comment.value}\n`;
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
        return `${this.#call(node.expression)};`;
      case 'FunctionDeclaration':
        return this.#functionDeclaration(node);
      case 'ReturnStatement':
        return `return ${this.#result(node.arguments, node)};`;
      case 'BreakStatement':
        return 'break;';
      case 'IfStatement':
        return node.clauses.map((clause) => this.#clause(clause)).join(' else ');
      case 'WhileStatement':
        return `while (${this.#condition(node.condition)}) ${this.#block(node)}`;
      case 'ForNumericStatement': {
        const { variable, start, end, step } = node;
        const from = [start, end, ...(step ? [step] : [])]
          .map((each) => this.#value(each))
          .join(', ');
        const block = this.#block(node, [variable], ['number']);
        return `for (const ${variable.name} of lua.range(${from})) ${block}`;
      }
      case 'ForGenericStatement':
        return this.#forEach(node);
      default:
        return this.#fail(node, `a ${node.type}`);
    }
  }

  #clause(clause) {
    if (clause.type === 'ElseClause') return this.#block(clause);
    const condition = this.#condition(clause.condition);
    return `if (${condition}) ${this.#block(clause)}`;
  }

  #forEach(node) {
    const [iterator, ...more] = node.iterators;
    if (more.length > 0 || iterator.base?.name !== 'ipairs' || iterator.arguments.length !== 1)
      this.#fail(node, 'an iterator but ipairs');
    const list = this.#value(iterator.arguments[0]);
    const block = this.#block(node, node.variables, ['number', 'value']);
    const names = node.variables.map(({ name }) => (name === '_' ? '' : name));
    return `for (const [${names.join(', ')}] of ipairs(${list})) ${block}`;
  }

  #local({ variables, init }) {
    const names = variables.map(({ name }) => name);
    const isConst = init.length > 0 && !names.some((name) => this.#assigned.has(name));
    this.#beingDeclared = names;
    const isOne = names.length === 1 && init.length === 1;
    const value = init.length === 0 || (isOne ? this.#value(init[0]) : this.#values(init));
    const kind = isOne && isConst ? this.#kind(init[0]) : 'value';
    this.#beingDeclared = [];
    for (const variable of variables) this.#declare(variable, kind);
    if (init.length === 0) return `let ${names.map((name) => `${name}: Value`).join(', ')};`;
    const pattern = isOne ? names[0] : `[${names.join(', ')}]`;
    if (isConst) return `const ${pattern} = ${value};`;
    return `let ${pattern}: Value${isOne ? '' : '[]'} = ${value};`;
  }

  #assignment({ variables, init }) {
    const [target] = variables;
    if (variables.length === 1 && init.length === 1) {
      const value = this.#value(init[0]);
      if (target.type === 'Identifier') return `${this.#name(target)} = ${value};`;
      return `lua.set(${this.#value(target.base)}, ${this.#key(target)}, ${value});`;
    }
    const names = variables.map((variable) =>
      variable.type === 'Identifier'
        ? this.#name(variable)
        : this.#fail(variable, 'several assignments to fields'),
    );
    return `[${names.join(', ')}] = ${this.#values(init)};`;
  }

  #functionDeclaration(node) {
    const { identifier, isLocal, parameters, body } = node;
    if (!isLocal || !identifier) this.#fail(node, 'a function that is not local');
    const isVariadic = parameters.at(-1)?.type === 'VarargLiteral';
    const named = isVariadic ? parameters.slice(0, -1) : parameters;
    const own = { parameters: named.length, isVariadic, gives: this.#givenBy(body) };
    this.#declare(identifier, own);
    const outer = this.#function;
    this.#function = own;
    this.#scopes.push(new Map());
    for (const parameter of named) this.#declare(parameter, 'value');
    const list = named.map((parameter) => `${parameter.name}?: Value`);
    if (isVariadic) list.push('...varargs: Value[]');
    const type = { nothing: 'void', value: 'Value', several: 'Value[]' }[own.gives];
    const text = `function ${identifier.name}(${list.join(', ')}): ${type} {\n${this.#body(node)}\n}`;
    this.#scopes.pop();
    this.#function = outer;
    return text;
  }

  /** Nothing, a value, or several, as a function's returns say. */
  #givenBy(body) {
    const lists = returnsOf(body).map((node) => node.arguments);
    if (lists.some((list) => list.length > 1 || (list.length === 1 && this.#isSeveral(list[0]))))
      return 'several';
    return lists.some((list) => list.length === 1) ? 'value' : 'nothing';
  }

  #result(list, node) {
    const { gives } = this.#function;
    if (gives === 'several') return this.#values(list);
    if (list.length > 1 || (list.length === 1 && this.#isSeveral(list[0])))
      this.#fail(node, 'a script with several results');
    if (list.length === 1) return this.#value(list[0]);
    return gives === 'nothing' ? '' : 'undefined';
  }

  // Expressions.

  /** One value. */
  #value(node) {
    switch (node.type) {
      case 'NilLiteral':
        return 'undefined';
      case 'BooleanLiteral':
      case 'NumericLiteral':
        return String(node.value);
      case 'StringLiteral':
        if (/[^\0-\x7f]/.test(node.value)) this.#fail(node, 'a string beyond ASCII');
        return JSON.stringify(node.value);
      case 'Identifier':
        return this.#name(node);
      case 'VarargLiteral':
        return 'varargs[0]';
      case 'CallExpression':
        return this.#call(node) + (this.#givenByCall(node) === 'several' ? '[0]' : '');
      case 'MemberExpression':
        if (this.#path(node) === 'math.huge') return 'math.huge';
      // fall through
      case 'IndexExpression':
        return `lua.get(${this.#value(node.base)}, ${this.#key(node)})`;
      case 'TableConstructorExpression':
        return this.#table(node);
      case 'UnaryExpression':
        return this.#unary(node);
      case 'BinaryExpression':
        return this.#binary(node);
      case 'LogicalExpression':
        return this.#logical(node);
      default:
        return this.#fail(node, `a ${node.type}`);
    }
  }

  #key(node) {
    if (node.type === 'IndexExpression') return this.#value(node.index);
    if (node.indexer !== '.') this.#fail(node, 'a method');
    return JSON.stringify(node.identifier.name);
  }

  /** An array of all values of a list, of which the last may be several. */
  #values(list) {
    const last = list.at(-1);
    if (list.length === 1 && this.#isSeveral(last)) return this.#several(last);
    return `[${this.#items(list)}]`;
  }

  #items(list) {
    const texts = list.slice(0, -1).map((node) => this.#value(node));
    const last = list.at(-1);
    if (last) texts.push(this.#isSeveral(last) ? `...${this.#several(last)}` : this.#value(last));
    return texts.join(', ');
  }

  #several(node) {
    const before = this.#source.slice(0, node.range[0]);
    if (/\(\s*$/.test(before) && !/\w\s*\(\s*$/.test(before))
      this.#fail(node, 'several values in brackets, of which one is meant');
    return node.type === 'VarargLiteral' ? 'varargs' : this.#call(node);
  }

  #isSeveral(node) {
    return (
      node.type === 'VarargLiteral' ||
      (node.type === 'CallExpression' &&
        this.#givenByCall(node) === 'several' &&
        !this.#matchesOnce(node))
    );
  }

  /** A pattern without captures, or with one, gives one value. */
  #matchesOnce({ base, arguments: [, pattern] }) {
    return (
      this.#path(base) === 'string.match' &&
      pattern.type === 'StringLiteral' &&
      pattern.value.split('(').length <= 2
    );
  }

  #givenByCall({ base }) {
    const path = this.#path(base);
    return LIBRARY[path] ?? this.#lookUp(path)?.gives ?? this.#fail(base, `the function ${path}`);
  }

  #call(node) {
    const { base, arguments: list } = node;
    const path = this.#path(base);
    const own = this.#lookUp(path);
    const last = list.at(-1);
    if (path === 'pcall') return this.#protectedCall(node);
    if (!own?.isVariadic && !VARIADIC.includes(path) && last && this.#isSeveral(last))
      this.#fail(node, `several values for ${path}`);
    if (own && !own.isVariadic && list.length > own.parameters)
      this.#fail(node, `so many arguments of ${path}`);
    return `${path}(${this.#items(list)})`;
  }

  #protectedCall({ arguments: [body, ...rest] }) {
    if (this.#lookUp(body.name)?.gives !== 'several') this.#fail(body, 'pcall of this');
    return `pcall(${[body.name, this.#items(rest)].join(', ')})`;
  }

  #table(node) {
    const { fields } = node;
    const values = fields.map(({ value }) => value);
    if (fields.every(({ type }) => type === 'TableValue'))
      return `lua.list(${this.#items(values)})`;
    if (!fields.every(({ type }) => type === 'TableKeyString'))
      this.#fail(node, 'a table of several kinds of fields');
    return `lua.record({ ${fields.map(({ key, value }) => `${key.name}: ${this.#value(value)}`).join(', ')} })`;
  }

  #unary(node) {
    const { operator, argument } = node;
    if (operator === 'not') return `!(${this.#condition(argument)})`;
    if (operator === '#') return `lua.length(${this.#value(argument)})`;
    return operator === '-' ? `-${this.#number(argument)}` : this.#fail(node, operator);
  }

  #binary(node) {
    const { operator, left, right } = node;
    if (operator === '..') return `lua.concat(${this.#operands(node).join(', ')})`;
    if (operator === '%') return `lua.modulo(${this.#number(left)}, ${this.#number(right)})`;
    const arithmetic = ARITHMETIC[operator];
    if (arithmetic) return `(${this.#number(left)} ${arithmetic} ${this.#number(right)})`;
    const comparison = COMPARISONS[operator] ?? this.#fail(node, operator);
    const areNumbers = this.#kind(left) === 'number' && this.#kind(right) === 'number';
    if (areNumbers || /=[=~]|~=/.test(operator))
      return `(${this.#value(left)} ${comparison} ${this.#value(right)})`;
    return `lua.compare(${this.#value(left)}, '${comparison}', ${this.#value(right)})`;
  }

  #operands(node) {
    return node.operator === '..'
      ? [this.#value(node.left), ...this.#operands(node.right)]
      : [this.#value(node)];
  }

  #number(node) {
    const text = this.#value(node);
    return this.#kind(node) === 'number' ? text : `lua.num(${text})`;
  }

  // In Lua only nil and false are not true.
  #logical(node) {
    const { operator, left, right } = node;
    const choice = this.#choice(node);
    if (choice) {
      const [condition, ifTrue, ifFalse] = choice;
      return `(${this.#condition(condition)} ? ${this.#value(ifTrue)} : ${this.#value(ifFalse)})`;
    }
    if (this.#kind(left) === 'boolean')
      return `(${this.#value(left)} ${operator === 'and' ? '&&' : '||'} ${this.#value(right)})`;
    return `lua.${operator}(${this.#value(left)}, () => ${this.#value(right)})`;
  }

  /** `a and b or c` where b is always true. */
  #choice({ operator, left, right }) {
    const isChoice =
      operator === 'or' &&
      left.type === 'LogicalExpression' &&
      left.operator === 'and' &&
      this.#isTrue(left.right);
    return isChoice ? [left.left, left.right, right] : undefined;
  }

  #isTrue(node) {
    return ['number', 'string', 'table'].includes(this.#kind(node)) || node.value === true;
  }

  #condition(node) {
    if (node.type === 'LogicalExpression' && !this.#choice(node))
      return `(${this.#condition(node.left)} ${node.operator === 'and' ? '&&' : '||'} ${this.#condition(node.right)})`;
    return this.#kind(node) === 'boolean' ? this.#value(node) : `lua.truthy(${this.#value(node)})`;
  }

  /** What kind of value it always is: number, string, boolean or table; otherwise value. */
  #kind(node) {
    switch (node.type) {
      case 'NumericLiteral':
        return 'number';
      case 'StringLiteral':
        return 'string';
      case 'BooleanLiteral':
        return 'boolean';
      case 'TableConstructorExpression':
        return 'table';
      case 'Identifier': {
        const known = this.#lookUp(node.name);
        return typeof known === 'string' ? known : 'value';
      }
      case 'MemberExpression':
        return this.#path(node) === 'math.huge' ? 'number' : 'value';
      case 'CallExpression':
        return this.#givenByCall(node);
      case 'UnaryExpression':
        return node.operator === 'not' ? 'boolean' : 'number';
      case 'BinaryExpression':
        if (node.operator === '..') return 'string';
        return node.operator in COMPARISONS ? 'boolean' : 'number';
      case 'LogicalExpression': {
        const [left, right] = this.#choice(node)?.slice(1) ?? [node.left, node.right];
        return this.#kind(left) === this.#kind(right) ? this.#kind(left) : 'value';
      }
      default:
        return 'value';
    }
  }

  // Names.

  /** `name` or `library.name`; undefined of what is in a table. */
  #path(node) {
    if (node.type === 'Identifier') return node.name;
    const isLibrary = node.base?.type === 'Identifier' && !this.#lookUp(node.base.name);
    return isLibrary && node.indexer === '.'
      ? `${node.base.name}.${node.identifier.name}`
      : undefined;
  }

  #lookUp(name) {
    return this.#scopes.findLast((scope) => scope.has(name))?.get(name);
  }

  #name(node) {
    const { name } = node;
    if (this.#beingDeclared.includes(name))
      this.#fail(node, `another ${name} than the one that is declared here`);
    if (typeof this.#lookUp(name) !== 'string') this.#fail(node, `the variable ${name}`);
    return name;
  }

  #declare(node, kind) {
    const { name } = node;
    const scope = this.#scopes.at(-1);
    if (TAKEN.test(name)) this.#fail(node, `how to write the name ${name}`);
    if (scope.has(name)) this.#fail(node, `two ${name} in one block`);
    scope.set(name, kind);
  }
}

function returns(body) {
  const last = body.at(-1);
  if (last?.type !== 'IfStatement') return last?.type === 'ReturnStatement';
  return (
    last.clauses.at(-1).type === 'ElseClause' &&
    last.clauses.every((clause) => returns(clause.body))
  );
}

function returnsOf(nodes) {
  return nodes.flatMap((node) => {
    if (node.type === 'ReturnStatement') return [node];
    return node.type === 'FunctionDeclaration'
      ? []
      : returnsOf([...(node.body ?? []), ...(node.clauses ?? [])]);
  });
}

function* nodesOf(node) {
  if (node === null || typeof node !== 'object') return;
  yield node;
  for (const child of Object.values(node)) yield* nodesOf(child);
}
