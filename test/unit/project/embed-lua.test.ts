// The generated modules carry the Lua scripts, one of them unchanged, and embed-lua.mjs notices when they do not.
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
import { afterEach, beforeEach, expect, it } from 'vitest';
import { scripts, type Script } from '../../../src/redis/scripts.generated.js';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-embed-'));
  for (const part of ['scripts', 'lua', 'src/redis', 'src/testing'])
    mkdirSync(join(folder, part), { recursive: true });
  for (const script of ['scripts/embed-lua.mjs', 'scripts/lua-to-js.mjs'])
    cpSync(script, join(folder, script));
  symlinkSync(resolve('node_modules'), join(folder, 'node_modules'));
});

afterEach(() => {
  rmSync(folder, { recursive: true });
});

it.each(Object.values<Script>(scripts))(
  'lua/$name.lua is embedded as it is',
  ({ name, sha1, source }) => {
    expect(source).toBe(readFileSync(`lua/${name}.lua`, 'utf8'));
    expect(sha1).toBe(createHash('sha1').update(source).digest('hex'));
  },
);

it('the generated modules are up to date', () => {
  execFileSync(process.execPath, ['scripts/embed-lua.mjs', '--check']);
}, 60_000);

it('text that means something in a template literal comes through', async () => {
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

it.each(['src/redis/scripts.generated.ts', 'src/testing/scripts.memory.generated.ts'])(
  '--check fails where %s is another one',
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

function embed(...args: string[]): { status: number | null } {
  return spawnSync(process.execPath, [join(folder, 'scripts/embed-lua.mjs'), ...args]);
}
