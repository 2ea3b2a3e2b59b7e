// The translator of the scripts fails the build at what it does not support, with file and line; the rest stays readable.
import { expect, it } from 'vitest';
import { translated } from '../../support/lua.js';

it.each([
  ['x = 1', 'the variable x'],
  ['local a = b', 'the variable b'],
  ['local a = 1\nlocal a = 2', 'two a in one block'],
  ['local a = 1\nif a then local a = a end', 'another a than'],
  ['local class = 1', 'how to write the name class'],
  ['local string = 1', 'how to write the name string'],
  ["local a = 'ü'", 'strings beyond ASCII'],
  ['local a = { 1, b = 2 }', 'tables of several kinds of fields'],
  ["local a = { ['b c'] = 2 }", 'tables of several kinds of fields'],
  ['for key, value in pairs({}) do end', 'iterators but ipairs'],
  ["local a = string.gsub('a', 'b', 'c')", 'the function string.gsub'],
  ['local a = string.lower', 'the variable string'],
  ['local a = ARGV:concat()', 'the function'],
  ['local a = function() end', 'a FunctionDeclaration'],
  ['function f() end', 'functions that are not local'],
  ['local function f() end\nlocal a = f', 'the variable f'],
  ['local function f() end\nlocal a = pcall(f)', 'pcall of a function that gives nothing'],
  ['local function f(a) end\nf(1, 2)', 'so many arguments of f'],
  ['local function f(a, b) end\nf(unpack(ARGV))', 'several values for f'],
  ['local function f() return 1, 2 end\nreturn f()', 'a script that returns several values'],
  ['local function f() return 1, 2 end\nlocal a, b = (f())', 'several values in brackets'],
  ['repeat until true', 'a RepeatStatement'],
  ['do end', 'a DoStatement'],
])('%j is refused: %s', (source, what) => {
  const lines = `local _ = 1\n${source}`;
  const line = lines.split('\n').length;
  expect(() => translated(lines)).toThrow(
    `lua/program.lua:${String(line)}: lua-to-js does not know ${what}`,
  );
});

it('text that is not Lua is refused', () => {
  expect(() => translated('local a = 1\nlocal a b')).toThrow(/^lua\/program\.lua:2: /);
});

it('statements keep their order, names, comments and empty lines', () => {
  const source = `-- What it does.
local lock = KEYS[1]

-- Why.
if redis.call('EXISTS', lock) == 0 then
  return 1 -- free
end
local count = 0
for _, each in ipairs(ARGV) do
  count = count + each
end
return count > 0 and 'some' or 'none'`;
  const lines = translated(source)
    .replaceAll(/\n\n(?=\})/g, '\n')
    .split('\n');
  expect(lines).toEqual([
    'function program(KEYS: Table, ARGV: Table, redis: RedisApi): Value {',
    '// What it does.',
    'const lock = lua.get(KEYS, 1);',
    '',
    '// Why.',
    'if ((redis.call("EXISTS", lock) === 0)) {',
    '// free',
    'return 1;',
    '}',
    'let count: Value = 0;',
    'for (const [, each] of ipairs(ARGV)) {',
    'count = (lua.num(count) + lua.num(each));',
    '}',
    `return (lua.compare(count, '>', 0) ? "some" : "none");`,
    '}',
  ]);
});
