// The generated module carries the Lua scripts unchanged, and embed-lua.mjs notices when it does not.
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { scripts, type Script } from '../../../src/redis/scripts.generated.js';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-embed-'));
  for (const part of ['scripts', 'lua', 'src/redis'])
    mkdirSync(join(folder, part), { recursive: true });
  cpSync('scripts/embed-lua.mjs', join(folder, 'scripts/embed-lua.mjs'));
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

it('the generated module is up to date', () => {
  execFileSync(process.execPath, ['scripts/embed-lua.mjs', '--check']);
});

it('text that means something in a template literal comes through', async () => {
  const source = 'return `a` .. "\\\\n" .. "${b}" .. "\\n" -- \\` \\${ ü\r\n';
  writeFileSync(join(folder, 'lua/odd-one.lua'), source);
  expect(embed().status).toBe(0);
  const generated = (await import(
    pathToFileURL(join(folder, 'src/redis/scripts.generated.ts')).href
  )) as {
    scripts: Record<string, Script>;
  };
  expect(generated.scripts['oddOne']).toMatchObject({ name: 'odd-one', source });
});

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
