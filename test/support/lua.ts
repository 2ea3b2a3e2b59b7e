// Lua under test: what a script hands to commands as a number, and programs that run as the scripts of lua/ run in memory.
import { pathToFileURL } from 'node:url';
import ts from 'typescript';
import * as lua from '../../src/testing/lua-runtime.js';
import { evaluate, type MemoryScript, type Reply } from '../../src/testing/lua-runtime.js';

/** Commands whose answers are strings, or lists of them. */
const ANSWERS_TEXT = /^'(GET|HGET|HMGET|HKEYS|HGETALL|ZSCORE|ZRANGE|ZRANGEBYSCORE)'$/;

/** Those that only count what one call does: a few hundred at most. */
const COUNTERS = ['index', 'count', 'MOST', 'MOST_LOOKED_AT'];

/** Each argument of a command that may be a number, as "COMMAND: argument"; but for those with fewer than nine digits, written as such. */
export function numericArguments(script: string): string[] {
  return new Script(script.replace(/--.*$/gm, '')).numericArguments();
}

class Script {
  readonly #body: string;
  /** The script's own functions that pass on their arguments to a command. */
  readonly #senders: string[];

  constructor(body: string) {
    this.#body = body;
    const passesOn = /local function (\w+)\(\.\.\.\)\s+local \w+ = redis\.pcall\(\.\.\.\)/g;
    this.#senders = [...body.matchAll(passesOn)].map(([, name]) => name!);
  }

  numericArguments(): string[] {
    const commands = ['redis.call', 'redis.pcall', ...this.#senders].flatMap((name) =>
      this.#calls(name),
    );
    return commands.flatMap(([command = '', ...rest]) =>
      rest.filter((arg) => !this.#isText(arg)).map((arg) => `${command}: ${arg}`),
    );
  }

  /** The arguments of each call of the function, also by pcall(). */
  #calls(name: string): string[][] {
    const call = String.raw`(?<!function )\b${name}\(|\bpcall\(${name}, `;
    const calls = this.#body.matchAll(new RegExp(call, 'g'));
    return [...calls].map(({ 0: { length }, index }) =>
      split(upToEnd(this.#body.slice(index + length)), ','),
    );
  }

  #isText(expression: string, met: readonly string[] = [], position = 0): boolean {
    const isText = (part: string): boolean => this.#isText(part, met, position);
    const operands = split(expression, ' or ').map((operand) => split(operand, ' and ').at(-1)!);
    if (operands.length > 1 || operands[0] !== expression) return operands.every(isText);
    if (/^('[^']*'|-?\d{1,8}|nil|\{\}|\.\.\.|KEYS|ARGV)$/.test(expression)) return true;
    if (split(expression, ' .. ').length > 1 || isCounter(expression)) return true;
    const [, indexed] = /^(.+?)\[(?:[^[\]]|\[[^[\]]*\])*\]$/s.exec(expression) ?? [];
    if (indexed !== undefined) return isText(indexed);
    const [, opening, inside = ''] = /^([\w.]*[({])(.*)[)}]$/s.exec(expression) ?? [];
    if (opening === undefined)
      return met.includes(expression) || this.#isTextByName(expression, met);
    if (['(', '{', 'unpack('].includes(opening)) return split(inside, ',').every(isText);
    if (['string.match(', 'table.concat(', 'cjson.encode('].includes(opening)) return true;
    if (opening === 'string.format(') return inside.startsWith("'%.0f',");
    const called = opening.slice(0, -1);
    if (['redis.call', 'redis.pcall', ...this.#senders].includes(called))
      return ANSWERS_TEXT.test(split(inside, ',')[0]!);
    return called === 'pcall'
      ? this.#returnsText(split(inside, ',')[0]!, met, position - 1)
      : this.#returnsText(called, met, position);
  }

  #returnsText(name: string, met: readonly string[], position: number): boolean {
    const own = new RegExp(String.raw`^( *)local function ${name}\(.*?\n(.*?)\n\1end\n`, 'ms');
    const returns = [...(own.exec(this.#body)?.[2]?.matchAll(/\breturn (.+)/g) ?? [])];
    const values = returns.map(([, value]) => split(value!, ',')[position] ?? 'nil');
    return values.length > 0 && values.every((value) => this.#isText(value, met));
  }

  /** Whatever it is set to anywhere. */
  #isTextByName(name: string, met: readonly string[]): boolean {
    const values = [...this.#assigned(name), ...this.#added(name), ...this.#given(name)];
    return (
      values.length > 0 &&
      values.every(({ value, position }) => this.#isText(value, [...met, name], position))
    );
  }

  *#assigned(name: string): Generator<Value> {
    const assignment = /^ *(?:local )?([\w, ]+?) =\s+([^=].*(?:\n *(?:and|or) .*)*)$/gm;
    for (const [, names, expressions] of this.#body.matchAll(assignment)) {
      const position = split(names!, ',').indexOf(name);
      if (position < 0) continue;
      const values = split(upToEnd(expressions!), ',');
      // One call may answer several values.
      yield values.length > position
        ? { value: values[position]!, position: 0 }
        : { value: values.at(-1)!, position: position - values.length + 1 };
    }
  }

  *#added(name: string): Generator<Value> {
    const entry = new RegExp(String.raw`\b${name}\[[^\]]+\] = (.+)$`, 'gm');
    for (const [, value] of this.#body.matchAll(entry)) yield { value: value!, position: 0 };
    for (const [list, value] of this.#calls('table.insert'))
      if (list!.startsWith(`${name}[`) || list === name) yield { value: value!, position: 0 };
  }

  /** As a parameter of a function, or by a loop. */
  *#given(name: string): Generator<Value> {
    const parameters = /local function (\w+)\(([\w, ]+)/g;
    for (const [, called, names] of this.#body.matchAll(parameters)) {
      const position = split(names!, ',').indexOf(name);
      for (const args of position < 0 ? [] : this.#calls(called!))
        yield { value: args[position] ?? 'nil', position: 0 };
    }
    const loop = new RegExp(String.raw`for \w+, ${name} in ipairs\((.+)\) do$`, 'gm');
    for (const [, list] of this.#body.matchAll(loop)) yield { value: list!, position: 0 };
  }
}

interface Value {
  readonly value: string;
  /** Which of several values of a call it is. */
  readonly position: number;
}

function isCounter(expression: string): boolean {
  const parts = expression.split(/ [-+] /);
  return parts.every((part) => /^(#\w+|\d{1,8})$/.test(part) || COUNTERS.includes(part));
}

/** Up to the bracket that closes what was opened before it; all of it where there is none. */
function upToEnd(text: string): string {
  let depth = 0;
  for (const [index, inString, character] of characters(text)) {
    if (!inString && '({['.includes(character)) depth++;
    if (!inString && ')}]'.includes(character) && --depth < 0) return text.slice(0, index);
  }
  return text;
}

/** At each separator that stands neither in brackets nor in a string. */
function split(text: string, separator: string): string[] {
  const parts: string[] = [];
  let depth = 0;
  let from = 0;
  const flat = text.replace(/\s+/g, ' ');
  for (const [index, inString, character] of characters(flat)) {
    if (inString) continue;
    if ('({['.includes(character)) depth++;
    if (')}]'.includes(character)) depth--;
    if (depth > 0 || index < from || !flat.startsWith(separator, index)) continue;
    parts.push(flat.slice(from, index).trim());
    from = index + separator.length;
  }
  return [...parts, flat.slice(from).trim()];
}

function* characters(text: string): Generator<[index: number, inString: boolean, string]> {
  let inString = false;
  for (let index = 0; index < text.length; index++) {
    const isQuote = text[index] === "'";
    yield [index, inString || isQuote, text[index]!];
    if (isQuote) inString = !inString;
  }
}

// Lua that a test writes, run as the scripts of lua/ run in memory.

interface Translator {
  readonly luaToTypeScript: (source: string, name: string, file: string) => string;
}

const { luaToTypeScript } = (await import(
  pathToFileURL('scripts/lua-to-js/script.mjs').href
)) as Translator;

/** As TypeScript; throws where it is not understood. */
export function translated(source: string): string {
  return luaToTypeScript(source, 'program', 'lua/program.lua');
}

/** What a client gets; each command is answered by `execute`. */
export function answerOf(
  source: string,
  { keys = [], args = [], execute = () => null }: Surroundings = {},
): Reply {
  const names = ['cjson', 'ipairs', 'math', 'pcall', 'string', 'table', 'tonumber', 'type'];
  const header = `const { ${[...names, 'unpack'].join(', ')} } = lua;`;
  const program = ts.transpile(`${header}\n${translated(source)}\nreturn program;`, {
    target: ts.ScriptTarget.ES2022,
  });
  // eslint-disable-next-line @typescript-eslint/no-implied-eval
  const load = new Function('lua', program) as (runtime: typeof lua) => MemoryScript;
  return evaluate(load(lua), keys, args, execute);
}

interface Surroundings {
  readonly keys?: readonly string[];
  readonly args?: readonly string[];
  readonly execute?: (command: readonly string[]) => Reply;
}
