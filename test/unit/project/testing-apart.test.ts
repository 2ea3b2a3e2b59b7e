// An import of holdfast loads nothing of holdfast/testing.
import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { expect, it } from 'vitest';

/** The files that are loaded with this one, including itself; imports of types alone load none. */
function loadedWith(path: string, loaded = new Set<string>()): Set<string> {
  if (loaded.has(path)) return loaded;
  loaded.add(path);
  const source = readFileSync(path, 'utf8');
  for (const [, from = ''] of source.matchAll(/^(?:im|ex)port (?!type )[^;]*?'(\.[^']+)'/gms))
    loadedWith(resolve(dirname(path), from.replace(/\.js$/, '.ts')), loaded);
  return loaded;
}

it('importing holdfast loads nothing of holdfast/testing', () => {
  const ofTesting = [...loadedWith(resolve('src/testing/memory-redis.ts'))];
  expect(ofTesting).toContain(resolve('src/testing/scripts.memory.generated.ts'));
  const loaded = [...loadedWith(resolve('src/index.ts'))];
  expect(loaded).toContain(resolve('src/redis/installed.ts'));
  expect(loaded.filter((path) => path.startsWith(resolve('src/testing')))).toEqual([]);
});
