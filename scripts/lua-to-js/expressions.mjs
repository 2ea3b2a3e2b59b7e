// Expressions of Lua as TypeScript on src/testing/lua-runtime.ts.

/** The functions that a script may call, by their results: a kind of value, several values, or nothing. */
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
const EQUALITY = { '==': '===', '~=': '!==' };
const COMPARISON = ['<', '<=', '>', '>='];
const ARITHMETIC = { '+': '+', '-': '-', '*': '*', '/': '/', '^': '**' };

export class Expressions {
  #names;
  #source;

  constructor(names, source) {
    this.#names = names;
    this.#source = source;
  }

  /** A value and its kind: number, string, boolean or table, or else value. */
  one(node) {
    switch (node.type) {
      case 'NilLiteral':
        return { text: 'undefined', kind: 'value' };
      case 'BooleanLiteral':
        return { text: node.raw, kind: 'boolean' };
      case 'NumericLiteral':
        return { text: String(node.value), kind: 'number' };
      case 'StringLiteral':
        if (/[^\0-\x7f]/.test(node.value)) this.#names.fail(node, 'strings beyond ASCII');
        return { text: JSON.stringify(node.value), kind: 'string' };
      case 'Identifier':
        return this.#names.variable(node);
      case 'VarargLiteral':
        return { text: 'varargs[0]', kind: 'value' };
      case 'CallExpression': {
        const kind = this.#givenBy(node);
        const text = this.call(node);
        return kind === 'several' ? { text: `${text}[0]`, kind: 'value' } : { text, kind };
      }
      case 'MemberExpression':
      case 'IndexExpression':
        if (this.#path(node) === 'math.huge') return { text: 'math.huge', kind: 'number' };
        return { text: `lua.get(${this.value(node.base)}, ${this.key(node)})`, kind: 'value' };
      case 'TableConstructorExpression':
        return { text: this.#table(node), kind: 'table' };
      case 'UnaryExpression':
        return this.#unary(node);
      case 'BinaryExpression':
        return this.#binary(node);
      case 'LogicalExpression':
        return this.#logical(node);
      default:
        return this.#names.fail(node, `a ${node.type}`);
    }
  }

  value(node) {
    return this.one(node).text;
  }

  /** Whether it is true, as a JavaScript condition: in Lua, only nil and false are not. */
  condition(node) {
    if (node.type === 'LogicalExpression' && !this.#choice(node))
      return `(${this.condition(node.left)} ${node.operator === 'and' ? '&&' : '||'} ${this.condition(node.right)})`;
    const { text, kind } = this.one(node);
    return kind === 'boolean' ? text : `lua.truthy(${text})`;
  }

  /** An array of all values of a list, whose last expression may yield several. */
  values(list) {
    const isAll = list.length === 1 && this.isSeveral(list[0]);
    return isAll ? this.#several(list[0]) : `[${this.#items(list)}]`;
  }

  /** The key of a field. */
  key(node) {
    if (node.type === 'IndexExpression') return this.value(node.index);
    if (node.indexer !== '.') this.#names.fail(node, 'methods');
    return JSON.stringify(node.identifier.name);
  }

  call(node) {
    const { base, arguments: list } = node;
    const path = this.#path(base);
    const own = this.#names.find(path);
    if (path === 'pcall') {
      const [{ name }, ...rest] = list;
      const gives = this.#names.find(name)?.gives;
      if (!['value', 'several'].includes(gives))
        this.#names.fail(node, 'pcall of a function that gives nothing');
      return `pcall(() => ${gives === 'several' ? '' : '['}${name}(${this.#items(rest)})${gives === 'several' ? '' : ']'})`;
    }
    const isVariadic = own?.isVariadic ?? VARIADIC.includes(path);
    if (!isVariadic && list.length > 0 && this.isSeveral(list.at(-1)))
      this.#names.fail(node, `several values for ${path}`);
    if (!isVariadic && list.length > own?.parameters)
      this.#names.fail(node, `so many arguments of ${path}`);
    return `${path}(${this.#items(list)})`;
  }

  isSeveral(node) {
    return (
      node.type === 'VarargLiteral' ||
      (node.type === 'CallExpression' && this.#givenBy(node) === 'several' && !matchesOnce(node))
    );
  }

  #unary(node) {
    const { operator, argument } = node;
    if (operator === 'not') return { text: `!(${this.condition(argument)})`, kind: 'boolean' };
    if (operator === '#') return { text: `lua.length(${this.value(argument)})`, kind: 'number' };
    return { text: `-${this.#number(argument)}`, kind: 'number' };
  }

  #binary(node) {
    const { operator, left, right } = node;
    if (operator === '..')
      return { text: `lua.concat(${this.#joined(node).join(', ')})`, kind: 'string' };
    if (operator in EQUALITY) {
      const text = `(${this.value(left)} ${EQUALITY[operator]} ${this.value(right)})`;
      return { text, kind: 'boolean' };
    }
    if (COMPARISON.includes(operator)) {
      const sides = [this.one(left), this.one(right)];
      const [a, b] = sides.map(({ text }) => text);
      const areNumbers = sides.every(({ kind }) => kind === 'number');
      const text = areNumbers
        ? `(${a} ${operator} ${b})`
        : `lua.compare(${a}, '${operator}', ${b})`;
      return { text, kind: 'boolean' };
    }
    const [a, b] = [this.#number(left), this.#number(right)];
    const text =
      operator === '%' ? `lua.modulo(${a}, ${b})` : `(${a} ${ARITHMETIC[operator]} ${b})`;
    return { text, kind: 'number' };
  }

  #logical(node) {
    const { operator, left, right } = node;
    const choice = this.#choice(node);
    if (choice) {
      const [ifTrue, ifFalse] = [this.one(choice.ifTrue), this.one(right)];
      const text = `(${this.condition(choice.condition)} ? ${ifTrue.text} : ${ifFalse.text})`;
      return { text, kind: kindOf(ifTrue, ifFalse) };
    }
    const [one, other] = [this.one(left), this.one(right)];
    const text =
      one.kind === 'boolean'
        ? `(${one.text} ${operator === 'and' ? '&&' : '||'} ${other.text})`
        : `lua.${operator}(${one.text}, () => ${other.text})`;
    return { text, kind: kindOf(one, other) };
  }

  /** `condition and ifTrue or ifFalse`, where ifTrue is always true. */
  #choice({ operator, left }) {
    if (operator !== 'or' || left.type !== 'LogicalExpression' || left.operator !== 'and') return;
    const isTrue = ['number', 'string', 'table'].includes(this.one(left.right).kind);
    return isTrue ? { condition: left.left, ifTrue: left.right } : undefined;
  }

  #number(node) {
    const { text, kind } = this.one(node);
    return kind === 'number' ? text : `lua.num(${text})`;
  }

  #joined(node) {
    if (node.operator !== '..') return [this.value(node)];
    return [this.value(node.left), ...this.#joined(node.right)];
  }

  #table(node) {
    const { fields } = node;
    if (fields.every(({ type }) => type === 'TableValue'))
      return `lua.list(${this.#items(fields.map(({ value }) => value))})`;
    if (!fields.every(({ type }) => type === 'TableKeyString'))
      this.#names.fail(node, 'tables of several kinds of fields');
    const named = fields.map(({ key, value }) => `${key.name}: ${this.value(value)}`);
    return `lua.record({ ${named.join(', ')} })`;
  }

  #items(list) {
    const texts = list.slice(0, -1).map((node) => this.value(node));
    const last = list.at(-1);
    if (last) texts.push(this.isSeveral(last) ? `...${this.#several(last)}` : this.value(last));
    return texts.join(', ');
  }

  #several(node) {
    const before = this.#source.slice(0, node.range[0]);
    if (/\(\s*$/.test(before) && !/\w\s*\(\s*$/.test(before))
      this.#names.fail(node, 'several values in brackets, of which Lua takes one');
    return node.type === 'VarargLiteral' ? 'varargs' : this.call(node);
  }

  #givenBy({ base }) {
    const path = this.#path(base);
    const gives = LIBRARY[path] ?? this.#names.find(path)?.gives;
    return gives ?? this.#names.fail(base, `the function ${path}`);
  }

  /** `name` or `library.name`; undefined for a field of another table. */
  #path({ type, name, base, indexer, identifier }) {
    if (type === 'Identifier') return name;
    const isLibrary = base?.type === 'Identifier' && !this.#names.find(base.name);
    return isLibrary && indexer === '.' ? `${base.name}.${identifier.name}` : undefined;
  }
}

/** A pattern with at most one capture yields one value. */
function matchesOnce({ base, arguments: [, pattern] }) {
  const isMatch = base.identifier?.name === 'match' && pattern.type === 'StringLiteral';
  return isMatch && pattern.value.split('(').length <= 2;
}

function kindOf(one, other) {
  return one.kind === other.kind ? one.kind : 'value';
}
