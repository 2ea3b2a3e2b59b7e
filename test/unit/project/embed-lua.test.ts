// The generated modules contain the whole Lua scripts, and embed-lua.mjs notices when they do not.
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { scripts, type Script } from '../../../src/redis/scripts.generated.js';

/** Most of these start processes, one after another. */
vi.setConfig({ testTimeout: 60_000 });

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-embed-'));
  for (const part of ['scripts', 'lua/lib', 'src/redis', 'src/testing'])
    mkdirSync(join(folder, part), { recursive: true });
  for (const script of ['scripts/embed-lua.mjs', 'scripts/lua-to-js'])
    cpSync(script, join(folder, script), { recursive: true });
  symlinkSync(resolve('node_modules'), join(folder, 'node_modules'));
});

afterEach(() => {
  rmSync(folder, { recursive: true });
});

it.each(Object.values<Script>(scripts))(
  'lua/$name is embedded whole, with the fragments that it includes',
  ({ name, sha1, source }) => {
    const own = readFileSync(`lua/${name}.lua`, 'utf8').split(/^ *-- include: .*\n/m);
    expect(own.map((part) => source.includes(part))).toEqual(own.map(() => true));
    expect(source).not.toContain('-- include: ');
    expect(sha1).toBe(createHash('sha1').update(source).digest('hex'));
  },
);

it('the generated modules are up to date', () => {
  execFileSync(process.execPath, ['scripts/embed-lua.mjs', '--check']);
});

it('text with a special meaning in a template literal survives', async () => {
  const source = 'return "`a`" .. "\\\\n" .. "${b}" .. "\\n" -- \\` \\${ ü\r\n';
  writeFileSync(join(folder, 'lua/odd-one.lua'), source);
  expect(embed().status).toBe(0);
  const generated = (await import(
    pathToFileURL(join(folder, 'src/redis/scripts.generated.ts')).href
  )) as {
    scripts: Record<string, Script>;
  };
  expect(generated.scripts['oddOne']).toMatchObject({ name: 'odd-one', source });
});

it('fragments are inserted where they are included, even in another one, with its indent; --print shows the whole script', () => {
  writeFileSync(join(folder, 'lua/one.lua'), 'if KEYS[1] then\n  -- include: outer, last\nend\n');
  writeFileSync(join(folder, 'lua/lib/outer.lua'), 'local a = 1\n\n-- include: inner\n');
  writeFileSync(join(folder, 'lua/lib/inner.lua'), 'a = 2\n');
  writeFileSync(join(folder, 'lua/lib/last.lua'), 'return 3\n');
  const { stdout } = embed('--print', 'one');
  expect(String(stdout)).toBe('if KEYS[1] then\n  local a = 1\n\n  a = 2\n  return 3\nend\n');
  expect(embed('--print', 'two').status).not.toBe(0);
});

it('a missing fragment fails', () => {
  writeFileSync(join(folder, 'lua/one.lua'), '-- include: two\nreturn 1\n');
  expect(embed().status).not.toBe(0);
});

it('--check fails after a change of a fragment', () => {
  writeFileSync(join(folder, 'lua/one.lua'), '-- include: two\n');
  writeFileSync(join(folder, 'lua/lib/two.lua'), 'return 1\n');
  expect(embed().status).toBe(0);
  expect(embed('--check').status).toBe(0);
  writeFileSync(join(folder, 'lua/lib/two.lua'), 'return 2\n');
  expect(embed('--check').status).toBe(1);
});

it.each(['src/redis/scripts.generated.ts', 'src/testing/scripts.memory.generated.ts'])(
  '--check fails where %s differs',
  (file) => {
    writeFileSync(join(folder, 'lua/one.lua'), 'return 1\n');
    expect(embed().status).toBe(0);
    writeFileSync(join(folder, file), '');
    expect(embed('--check').status).toBe(1);
  },
);

it('--check fails after a change of a script', () => {
  writeFileSync(join(folder, 'lua/one.lua'), 'return 1\n');
  expect(embed('--check').status).toBe(1);
  expect(embed().status).toBe(0);
  expect(embed('--check').status).toBe(0);
  writeFileSync(join(folder, 'lua/one.lua'), 'return 2\n');
  expect(embed('--check').status).toBe(1);
});

function embed(...args: string[]): { status: number | null; stdout: Buffer } {
  return spawnSync(process.execPath, [join(folder, 'scripts/embed-lua.mjs'), ...args]);
}
