// Lua in memory behaves as in Redis, even where JavaScript differs.
import { describe, expect, it } from 'vitest';
import { answerOf } from '../../support/lua.js';

const WRONG_TYPE = { err: 'WRONGTYPE Operation against a key holding the wrong kind of value' };

describe('truth', () => {
  it.each([
    ['0 and 1 or 2', 1],
    ["'' and 1 or 2", 1],
    ['nil and 1 or 2', 2],
    ['false and 1 or 2', 2],
    ['ARGV[1] and 1', null],
    ['ARGV[1] or 1', 1],
    ["(ARGV[1] or 'a') == 'a' and 'yes' or 'no'", 'yes'],
    ['not 0', null],
    ['not ARGV[1]', 1],
    ["'1' == 1", null],
    ["'a' ~= 'b'", 1],
  ])('%s is %j', (expression, answer) => {
    expect(answerOf(`return ${expression}`)).toBe(answer);
  });

  it('the second operand is not evaluated when the first decides', () => {
    expect(answerOf("return ARGV[1] and redis.call('GET', 'a') or 1")).toBe(1);
  });
});

describe('numbers', () => {
  it.each([
    ["'3' + 4", '7'],
    ['7 / 2', '3.5'],
    ['-7 % 3', '2'],
    ['2 ^ 53', '9.007199254741e+15'],
    ['2 ^ 31 * 1000', '2147483648000'],
    ['10 ^ 14', '1e+14'],
    ['123456789012345', '1.2345678901234e+14'],
    ['123456789012355', '1.2345678901236e+14'],
    ['1 / 3', '0.33333333333333'],
    ['0.00001', '1e-05'],
    ['-0', '-0'],
    ['math.huge', 'inf'],
    ['-math.huge', '-inf'],
  ])('%s is written out as %s', (expression, text) => {
    expect(answerOf(`return '' .. ${expression}`)).toBe(text);
  });

  it.each([
    ['2 ^ 53', '9007199254740992'],
    ['1e21', '1000000000000000000000'],
    ['0.5', '0'],
    ['1.5', '2'],
    ['2.5', '2'],
    ['-1.5', '-2'],
    ['-0.4', '-0'],
    ["'12'", '12'],
    ['math.huge', 'inf'],
  ])("string.format('%%.0f', %s) is %s", (expression, text) => {
    expect(answerOf(`return string.format('%.0f', ${expression})`)).toBe(text);
  });

  it.each([
    ['12', 12],
    [' 12\t', 12],
    ['-0x10', -16],
    ['1e3', 1_000],
    ['5.', 5],
    ['.5e1', 5],
    ['', null],
    ['1a', null],
    ['1 2', null],
    ['\u00a01', null],
    ['0b1', null],
  ])('tonumber(%j) is %j', (text, number) => {
    expect(answerOf('return tonumber(ARGV[1])', { args: [text] })).toBe(number);
  });

  it('tonumber() takes infinity, and nil for no number', () => {
    expect(answerOf("return tonumber('inf') == math.huge and not tonumber(nil)")).toBe(1);
  });

  it.each([
    ["math.max(1, '5', 3)", 5],
    ['math.min(4, 2, 3)', 2],
    ['math.floor(-1.5)', -2],
    ['math.ceil(1.2)', 2],
  ])('%s is %j', (expression, number) => {
    expect(answerOf(`return ${expression}`)).toBe(number);
  });
});

describe('strings', () => {
  it('have no fields except the functions of their library', () => {
    expect(answerOf("local reply = 'OK' return { reply.err or 'none' }")).toEqual(['none']);
    expect(() => answerOf("local reply = 'OK' return reply.format")).toThrow();
  });

  it.each([
    ["'^.+:%-?%d+$'", 'client:-3', 'client:-3'],
    ["'^.+:%-?%d+$'", 'client:3x', null],
    ["'^%d+$'", '٣', null],
    ["'^(%d+) (%S*) ?(%d*)$'", '1 a\u00a0b 3', '1'],
    ["'^w(%d+) '", 'w12 x', '12'],
    ["'^.*$'", 'a\nb', 'a\nb'],
    ["'%d+'", 'ab12', '12'],
  ])('string.match() with %s of %j is %j', (pattern, text, found) => {
    const script = `local found = string.match(ARGV[1], ${pattern}) return found`;
    expect(answerOf(script, { args: [text] })).toBe(found);
  });

  it('string.match() returns all captures, and a missing one is empty', () => {
    const script =
      "local a, b, c = string.match(ARGV[1], '^(%d+) (%S*) ?(%d*)$') return { a, b, c }";
    expect(answerOf(script, { args: ['1 x'] })).toEqual(['1', 'x', '']);
  });

  it.each(['%a', '[ab]', '%b()', '%f[a]'])('a pattern with %s is refused', (part) => {
    expect(() => answerOf(`local found = string.match('a', '${part}') return found`)).toThrow(
      'in the pattern',
    );
  });

  it('string.find() treats a pattern as plain text when told to', () => {
    expect(
      answerOf("local from, to = string.find('a.{b', '.{', 1, true) return { from, to }"),
    ).toEqual([2, 3]);
    expect(answerOf("local from = string.find('abc', '.', 1, true) return from")).toBe(null);
  });

  it('string.byte() returns as many bytes as the call asks for', () => {
    expect(answerOf("local a, b = string.byte('xyz', 2, 3) return { a, b }")).toEqual([121, 122]);
    expect(answerOf("local first = string.byte('xyz', 1) return first")).toBe(120);
  });

  it('functions that depend on bytes refuse strings beyond ASCII', () => {
    expect(() => answerOf('return #ARGV[1]', { args: ['ü'] })).toThrow('the bytes of ü');
    expect(() =>
      answerOf('local first = string.byte(ARGV[1], 1) return first', { args: ['ü'] }),
    ).toThrow();
    expect(() => answerOf("return 'a' < 'b'")).toThrow('strings compare as bytes');
  });

  it('cjson.encode() escapes what Redis escapes', () => {
    const args = ['a/"\\\n\u0001\u007fü\u{1f512}'];
    const encoded = '["a\\/\\"\\\\\\n\\u0001\\u007fü\u{1f512}"]';
    expect(answerOf('return cjson.encode({ ARGV[1] })', { args })).toBe(encoded);
    expect(() => answerOf('return cjson.encode({})')).toThrow();
  });
});

describe('tables', () => {
  it.each([
    ['{ 1, 2, nil }', 2],
    ['{}', 0],
    ['{ unpack({ 1, 2, 3 }) }', 3],
    ["{ string.match('1 2', '(%d) (%d)') }", 2],
  ])('#%s is %j', (list, length) => {
    expect(answerOf(`local list = ${list} return #list`)).toBe(length);
  });

  it('a length that Lua leaves open is refused', () => {
    expect(() => answerOf('return { nil, 1, nil }')).toThrow('no length that is certain');
    expect(() => answerOf('local list = {} list[2] = 1 return list')).toThrow();
    expect(() => answerOf('local list = { 1, 2 } list[1] = nil return list')).toThrow();
  });

  it('an item at the end can be added and removed', () => {
    const script =
      'local list = { 1 } list[2] = 2 list[#list + 1] = 3 list[3] = nil list[3] = nil return #list';
    expect(answerOf(script)).toBe(2);
  });

  it('keys keep their type: a number is not a string, and a table equals only itself', () => {
    const script =
      "local a, b, of = {}, {}, {} of[a] = 1 of['1'] = 2 return { of[a], of['1'], of[b] or 3 }";
    expect(answerOf(script)).toEqual([1, 2, 3]);
  });

  it('table.concat() and table.insert() go by order', () => {
    const script =
      "local list = { 'a', 1 } table.insert(list, 2.5) return table.concat(list, ', ')";
    expect(answerOf(script)).toBe('a, 1, 2.5');
  });

  it('ipairs() sees changes made during the loop', () => {
    const script =
      'local list, sum = { 1, 2 }, 0 for i, each in ipairs(list) do sum = sum + each if i == 1 then list[2] = 5 end end return sum';
    expect(answerOf(script)).toBe(6);
  });

  it('a loop evaluates its limits once', () => {
    const script = 'local list = { 1 } for i = 1, #list, 1 do list[#list + 1] = i end return #list';
    expect(answerOf(script)).toBe(2);
  });
});

describe('functions', () => {
  it('get nil for missing arguments, and return nil at their end', () => {
    const script =
      'local function f(a, b) if b then return a end end return { f(1) or 0, f(1, 2) }';
    expect(answerOf(script)).toEqual([0, 1]);
  });

  it('pass on all their arguments, nil included', () => {
    const script = 'local function pass(...) return redis.call(...) end return pass(unpack(ARGV))';
    const execute = (command: readonly string[]): string => command.join(' ');
    expect(answerOf(script, { args: ['GET', 'a'], execute })).toBe('GET a');
  });

  it('contribute one value in the middle of a list, and all at the end', () => {
    const script =
      'local function two() return 1, 2 end local a, b, c = two(), two() return { a, b, c }';
    expect(answerOf(script)).toEqual([1, 1, 2]);
  });
});

describe('errors', () => {
  it.each([
    ['ARGV[1] + 1', 'perform arithmetic on a nil value'],
    ['ARGV[1] < 1', 'compare nil with number'],
    ["ARGV[1] .. ''", 'use a nil value as a string'],
    ['ARGV[1].err', 'index a nil value'],
    ['#ARGV[1]', 'get length of a nil value'],
    ["tonumber('x') > 1", 'compare nil with number'],
  ])('%s is one: attempt to %s', (expression, what) => {
    expect(answerOf(`return ${expression}`)).toEqual({
      err: `ERR user_script: attempt to ${what}`,
    });
  });

  it("redis.call() raises a command's error, redis.pcall() returns it", () => {
    const execute = (): typeof WRONG_TYPE => WRONG_TYPE;
    expect(answerOf("redis.call('GET', 'a') return 1", { execute })).toEqual(WRONG_TYPE);
    expect(answerOf("return redis.pcall('GET', 'a').err", { execute })).toBe(WRONG_TYPE.err);
    expect(answerOf("return redis.pcall('GET', 'a')", { execute })).toEqual(WRONG_TYPE);
  });

  it('pcall() catches what a function raises', () => {
    const script =
      "local function get(key) return redis.call('GET', key), 2 end local isDone, value, other = pcall(get, 'a') return { isDone, value, other }";
    expect(answerOf(script, { execute: () => WRONG_TYPE })).toEqual([null, WRONG_TYPE.err]);
    expect(answerOf(script, { execute: () => 'b' })).toEqual([1, 'b', 2]);
  });

  it('a defect of the runtime is not an error that a script could catch', () => {
    const script =
      'local function length() return #ARGV[1], 0 end local isDone = pcall(length) return isDone';
    expect(() => answerOf(script, { args: ['ü'] })).toThrow('the bytes of ü');
  });

  it.each(['nil', 'false', '{}'])('%s is no argument of a command', (value) => {
    expect(answerOf(`return redis.pcall('GET', ${value})`)).toEqual({
      err: 'ERR Lua redis lib command arguments must be strings or integers',
    });
  });

  // Redis 7.2.0 to 7.2.4 and Valkey 7.2.5 write a number that ends in eight zeros as "1e+8": test/integration/servers/round-numbers.test.ts
  it('a number that servers write in different ways is refused: scripts return its digits', () => {
    expect(answerOf("return redis.call('GET', 12)", { execute: ([, key]) => key! })).toBe('12');
    for (const number of ['1.5', '2 ^ 53', '100000000', "tonumber('-100000000')"])
      expect(() => answerOf(`return redis.call('GET', ${number})`)).toThrow('not its digits');
  });
});

describe('answers', () => {
  it.each([
    ['3.9', 3],
    ['-3.9', -3],
    ['-0.5', 0],
    ['true', 1],
    ['false', null],
    ['nil', null],
    ["{ 1, 'a', false, { 2.5 } }", [1, 'a', null, [2]]],
    ['{ 1, nil, 3 }', [1]],
    ["{ ok = 'fine' }", { ok: 'fine' }],
    ["redis.error_reply('CODE words')", { err: 'CODE words' }],
    ["{ 1, redis.error_reply('CODE words') }", [1, { err: 'CODE words' }]],
  ])('%s arrives as %j', (value, answer) => {
    expect(answerOf(`return ${value}`)).toEqual(answer);
  });

  it('a script without one answers nil', () => {
    expect(answerOf('local a = 1')).toBe(null);
  });

  it.each([
    [null, 'boolean'],
    [1, 'number'],
    ['a', 'string'],
    [{ ok: 'OK' }, 'table'],
    [['a'], 'table'],
  ])("a command's %j is a %s", (reply, type) => {
    expect(answerOf("return type(redis.call('GET', 'a'))", { execute: () => reply })).toBe(type);
  });

  it("a command's list may contain nil, which is false", () => {
    const script =
      "local list = redis.call('HMGET', 'a') return { #list, type(list[2]), redis.call('SET').ok or '' }";
    expect(
      answerOf(script, {
        execute: ([name]) => (name === 'SET' ? { ok: 'OK' } : ['a', null, 'b', null]),
      }),
    ).toEqual([4, 'boolean', 'OK']);
  });
});
