// Lua that a test writes, run as the scripts of lua/ run in memory.
import { pathToFileURL } from 'node:url';
import ts from 'typescript';
import * as lua from '../../src/testing/lua-runtime.js';
import { evaluate, type MemoryScript, type Reply } from '../../src/testing/lua-runtime.js';

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
