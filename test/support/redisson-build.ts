// vitest's global set-up for the tests beside Redisson: builds test/redisson by Maven, once for each version of its sources.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { TestProject } from 'vitest/node';

declare module 'vitest' {
  interface ProvidedContext {
    /** What Java needs to run Redisson; empty where there is no Java or no Maven. */
    redissonClasspath: string;
  }
}

const folder = fileURLToPath(new URL('../redisson', import.meta.url));
const sources = ['pom.xml', 'src/main/java/holdfast/RedissonDriver.java'];

export default function setup(project: TestProject): void {
  const missing = ['java', 'mvn'].filter((program) => !runs(program));
  if (missing.length > 0) {
    console.log(
      `redisson: the tests beside Redisson are skipped: there is no ${missing.join(' and no ')}`,
    );
    project.provide('redissonClasspath', '');
    return;
  }
  build();
  const target = join(folder, 'target');
  project.provide('redissonClasspath', [join(target, 'classes'), join(target, 'lib/*')].join(':'));
}

function runs(program: string): boolean {
  return spawnSync(program, ['-version'], { stdio: 'ignore' }).status === 0;
}

function build(): void {
  const stamp = join(folder, 'target/built-from');
  const hash = createHash('sha256');
  for (const file of sources) hash.update(readFileSync(join(folder, file)));
  const version = hash.digest('hex');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === version) return;

  console.log('redisson: building test/redisson by Maven');
  const { status, stdout } = spawnSync('mvn', ['--quiet', '--batch-mode', 'clean', 'compile'], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'inherit'],
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`Maven cannot build test/redisson:\n${stdout}`);
  writeFileSync(stamp, version);
}
