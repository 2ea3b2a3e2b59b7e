// The part of Lua 5.1 and of Redis' scripting that the scripts of lua/ need, in JavaScript: scripts.memory.generated.ts runs on it.
//
// A Lua string is a JavaScript string, as the client sends it: no script counts, cuts or orders the bytes of a name, and patterns for ASCII
// find the same in both. Operations that depend on bytes throw an Error, as does everything else that is not needed so far.

/** A value of Lua; `undefined` is its nil. Functions are not values here: the scripts only call them. */
export type Value = undefined | boolean | number | string | Table;

/** A table of Lua: a sequence, whose first item has the index 1, and fields. */
export class Table {
  readonly items: Value[];
  readonly fields: Map<Value, Value> = new Map<Value, Value>();

  constructor(items: Value[] = []) {
    this.items = items;
  }
}

/** A reply of RESP 2: null is nil, {ok} a status, {err} an error that begins with its code ("WRONGTYPE Operation …"). */
export type Reply =
  string | number | null | readonly Reply[] | { readonly ok: string } | { readonly err: string };

/** A script of lua/. */
export type MemoryScript = (KEYS: Table, ARGV: Table, redis: RedisApi) => Value;

/** The global `redis` of a script. */
export interface RedisApi {
  /** Throws a {@link LuaError} if the command answers an error. */
  call(...command: Value[]): Value;
  pcall(...command: Value[]): Value;
  error_reply(text: string): Table;
}

/** An error that a script, or a command in it, raises; its message begins with its code. */
class LuaError extends Error {}

/** Runs a script as EVAL does, on the commands of a server: `execute` returns errors, and throws none. */
export function evaluate(
  script: MemoryScript,
  keys: readonly string[],
  args: readonly string[],
  execute: (command: readonly string[]) => Reply,
): Reply {
  const pcall = (...command: Value[]): Value =>
    command.every(isArgument)
      ? fromReply(execute(command.map(text)))
      : record({ err: 'ERR Lua redis lib command arguments must be strings or integers' });
  const call = (...command: Value[]): Value => {
    const answer = pcall(...command);
    const error = answer instanceof Table ? answer.fields.get('err') : undefined;
    if (error !== undefined) throw new LuaError(text(error));
    return answer;
  };
  try {
    const redis = { call, pcall, error_reply: (err: string) => record({ err }) };
    return toReply(script(new Table([...keys]), new Table([...args]), redis));
  } catch (error) {
    if (error instanceof LuaError) return { err: error.message };
    throw error;
  }
}

/** The reply that a client gets for the value that a script returns. */
function toReply(value: Value): Reply {
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return Math.trunc(value) + 0; // no -0
  if (!(value instanceof Table)) return value ? 1 : null;
  const { items, fields } = value;
  const err = fields.get('err');
  if (typeof err === 'string') return { err };
  const ok = fields.get('ok');
  if (typeof ok === 'string') return { ok };
  const end = items.indexOf(undefined);
  return (end < 0 ? items : items.slice(0, end)).map(toReply);
}

function fromReply(reply: Reply): Value {
  if (reply === null) return false;
  if (typeof reply !== 'object') return reply;
  return 'map' in reply ? new Table(reply.map(fromReply)) : record({ ...reply });
}

// A server may write a number of nine digits in another form: see lua/README.md. So commands never get one as a number.
function isArgument(value: Value): boolean {
  if (typeof value === 'number' && !(Number.isInteger(value) && Math.abs(value) < 1e8))
    throw new Error(`a script hands the number ${value} to a command, and not its digits`);
  return typeof value === 'string' || typeof value === 'number';
}

// The language.

export function truthy(value: Value): boolean {
  return value !== undefined && value !== false;
}

export function and(value: Value, other: () => Value): Value {
  return truthy(value) ? other() : value;
}

export function or(value: Value, other: () => Value): Value {
  return truthy(value) ? value : other();
}

/** `{ a, b }` */
export function list(...items: Value[]): Table {
  const length = items.findLastIndex((item) => item !== undefined) + 1;
  if (length < items.length && items.indexOf(undefined) < length)
    throw new Error('a table with nils has no length that is certain');
  return new Table(items.slice(0, length));
}

/** `{ name = a, other = b }` */
export function record(fields: Readonly<Record<string, Value>>): Table {
  const table = new Table();
  for (const [name, value] of Object.entries(fields)) set(table, name, value);
  return table;
}

export function get(table: Value, key: Value): Value {
  if (typeof table === 'string') {
    if (typeof key === 'string' && key in string) throw new Error(`string.${key} of a string`);
    return undefined;
  }
  if (!(table instanceof Table)) throw failure(`index a ${type(table)} value`);
  return typeof key === 'number' ? table.items[key - 1] : table.fields.get(key);
}

export function set(table: Value, key: Value, value: Value): void {
  if (!(table instanceof Table)) throw failure(`index a ${type(table)} value`);
  const { items, fields } = table;
  if (typeof key === 'number') {
    const isAtEnd = key === items.length || key === items.length + 1;
    if (value === undefined && isAtEnd) items.length = key - 1;
    else if (value !== undefined && (isAtEnd || key - 1 in items)) items[key - 1] = value;
    else throw new Error(`a sequence of ${items.length} gets ${type(value)} at ${key}`);
  } else if (key === undefined) throw failure('use nil as an index');
  else if (value === undefined) fields.delete(key);
  else fields.set(key, value);
}

/** `#value` */
export function length(value: Value): number {
  if (typeof value === 'string') return ascii(value).length;
  if (value instanceof Table) return value.items.length;
  throw failure(`get length of a ${type(value)} value`);
}

/** An operand of arithmetic. */
export function num(value: Value): number {
  const number = tonumber(value);
  if (number === undefined) throw failure(`perform arithmetic on a ${type(value)} value`);
  return number;
}

/** `a % b` */
export function modulo(a: number, b: number): number {
  return a - Math.floor(a / b) * b;
}

export function compare(a: Value, operator: '<' | '<=' | '>' | '>=', b: Value): boolean {
  if (typeof a === 'string' && typeof b === 'string') throw new Error('strings compare as bytes');
  if (typeof a !== 'number' || typeof b !== 'number')
    throw failure(`compare ${type(a)} with ${type(b)}`);
  switch (operator) {
    case '<':
      return a < b;
    case '<=':
      return a <= b;
    case '>':
      return a > b;
    case '>=':
      return a >= b;
  }
}

/** `a .. b .. c` */
export function concat(...values: Value[]): string {
  return values.map(text).join('');
}

/** `for i = from, to, step do` */
export function* range(from: Value, to: Value, step = 1): Generator<number> {
  const end = num(to);
  for (let i = num(from); i <= end; i += step) yield i;
}

// The libraries.

export function type(value: Value): string {
  if (value instanceof Table) return 'table';
  return value === undefined ? 'nil' : typeof value;
}

const NUMBER =
  /^[ \t-\r]*([-+]?)(\d+\.?\d*(?:e[-+]?\d+)?|\.\d+(?:e[-+]?\d+)?|0x[\da-f]+|inf(?:inity)?|nan)[ \t-\r]*$/i;

export function tonumber(value: Value): number | undefined {
  if (typeof value === 'number') return value;
  const [, sign, digits] = NUMBER.exec(typeof value === 'string' ? value : '') ?? [];
  if (digits === undefined) return undefined;
  const number = /^inf/i.test(digits) ? Infinity : Number(digits); // of "nan", NaN
  return sign === '-' ? -number : number;
}

export function* ipairs(table: Value): Generator<[number, Value]> {
  for (let i = 1, value; (value = get(table, i)) !== undefined; i++) yield [i, value];
}

export function unpack(table: Value): Value[] {
  length(table);
  return (table as Table).items;
}

export function pcall<Args extends Value[]>(
  body: (...args: Args) => Value[],
  ...args: Args
): Value[] {
  try {
    return [true, ...body(...args)];
  } catch (error) {
    if (error instanceof LuaError) return [false, error.message];
    throw error;
  }
}

// By comparisons, as in Lua: so NaN and the sign of 0 give the same as there.
export const math = {
  get huge(): number {
    return Infinity;
  },
  floor: (value: Value): number => Math.floor(num(value)),
  ceil: (value: Value): number => Math.ceil(num(value)),
  max: (...values: Value[]): number => values.map(num).reduce((a, b) => (b > a ? b : a)),
  min: (...values: Value[]): number => values.map(num).reduce((a, b) => (b < a ? b : a)),
};

export const table = {
  insert(list: Value, value: Value): void {
    set(list, length(list) + 1, value);
  },
  concat: (list: Value, separator: string): string => unpack(list).map(text).join(separator),
};

export const string = {
  byte: (value: Value, from: Value, to: Value = from): number[] =>
    Array.from(ascii(text(value)).slice(num(from) - 1, num(to)), (char) => char.charCodeAt(0)),
  /** Finds a text as it is, from the first character on. */
  find(value: Value, part: string, from: number, isPlain: boolean): Value[] {
    if (from !== 1 || !isPlain) throw new Error('string.find of a pattern, or from elsewhere');
    const at = text(value).indexOf(part);
    return at < 0 ? [undefined] : [at + 1, at + part.length];
  },
  /** The digits of a number, rounded to a whole one. */
  format(form: string, value: Value): string {
    if (form !== '%.0f') throw new Error(`string.format of ${form}`);
    const number = num(value);
    if (!Number.isFinite(number)) return text(number);
    // A half is rounded to the even number.
    const rounded =
      Math.abs(number % 2) === 0.5
        ? Math.trunc(number)
        : Math.sign(number) * Math.round(Math.abs(number));
    return (Object.is(rounded, -0) ? '-' : '') + BigInt(rounded).toString();
  },
  match(value: Value, pattern: Value): Value[] {
    const found = regExp(text(pattern)).exec(text(value));
    if (!found) return [undefined];
    return found.length > 1 ? found.slice(1) : [found[0]];
  },
};

export const cjson = {
  /** A sequence of strings. */
  encode(list: Value): string {
    const words = unpack(list).map((word) => JSON.stringify(text(word)));
    if (words.length === 0) throw new Error('an empty table is an object to cjson');
    return `[${words.join(',')}]`.replaceAll('/', '\\/').replaceAll('\x7f', '\\u007f');
  },
};

const regExps = new Map<string, RegExp>();

function regExp(pattern: string): RegExp {
  let known = regExps.get(pattern);
  if (!known) regExps.set(pattern, (known = translated(pattern)));
  return known;
}

const CLASSES: Readonly<Record<string, string>> = {
  '%d': '[0-9]',
  '%x': '[0-9A-Fa-f]',
  '%S': '[^ \\t-\\r]',
  '%-': '-',
  '~': '~',
};

function translated(pattern: string): RegExp {
  const source = pattern.replace(/%.|[^\w :.+*?^$()]/gs, (part) => {
    const known = CLASSES[part];
    if (known === undefined) throw new Error(`${part} in the pattern ${pattern}`);
    return known;
  });
  return new RegExp(source, 's');
}

/** A string, or the string that Lua makes of a number. */
function text(value: Value): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return written(value);
  throw failure(`use a ${type(value)} value as a string`);
}

/** The number as `%.14g` of C writes it: with 14 digits, and a tie rounded to the even one. */
function written(number: number): string {
  if (Object.is(number, -0)) return '-0';
  if (!Number.isFinite(number)) return String(number).toLowerCase().replace('infinity', 'inf');
  const [even] = /^-?\d\.\d{12}[02468](?=50*e)/.exec(number.toExponential(100)) ?? [];
  const [digits = '', exponent = ''] = number.toExponential(13).split('e');
  const power = Number(exponent);
  const isShort = power >= -4 && power < 14;
  const long = isShort
    ? Number(`${even ?? digits}e${exponent}`).toFixed(13 - power)
    : (even ?? digits);
  const text = long.includes('.') ? long.replace(/\.?0+$/, '') : long;
  return isShort ? text : `${text}e${exponent.replace(/^([-+])(\d)$/, '$10$2')}`;
}

function ascii(value: string): string {
  if (/[^\0-\x7f]/.test(value)) throw new Error(`the bytes of ${value}`);
  return value;
}

function failure(what: string): LuaError {
  return new LuaError(`ERR user_script: attempt to ${what}`);
}
