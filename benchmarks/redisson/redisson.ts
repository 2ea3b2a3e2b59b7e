// The real Redisson, in Java processes: fetched from Maven Central, in the version of test/redisson, with its worker compiled.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Contender } from '../rows/row.js';
import { WorkerProcess } from '../worker/worker-process.js';

/** Enough for ten thousand threads in line; a stack of the default size is only reserved. */
const JVM = ['-Xmx1g', '-XX:+UseParallelGC', '-Xss256k', '-Dslf4j.internal.verbosity=ERROR'];

/** undefined, with a printed reason, where it cannot be built. */
export function redissonContenders(): Contender[] {
  let classPath: string;
  try {
    classPath = buildRedissonWorker();
  } catch (error) {
    if (!(error instanceof NoRedissonError)) throw error;
    console.log(`redisson: left out: ${error.message}`);
    return [];
  }
  const pom = readFileSync(new URL('../../test/redisson/pom.xml', import.meta.url), 'utf8');
  const version = /<redisson.version>(.*)<\/redisson.version>/.exec(pom)?.[1] ?? '';
  const lock = (id: string, kind: string, isShared?: true): Contender => ({
    id,
    label: `Redisson ${version} ${kind} (Java)`,
    role: 'competitor',
    runtime: 'java',
    pollMs: 0,
    ...(isShared && { isShared }),
    start: () => WorkerProcess.java([...JVM, '-cp', classPath, 'RedissonWorker']),
  });
  return [
    lock('redisson', 'getLock'),
    lock('redisson-fair', 'getFairLock'),
    lock('redisson-read-write', 'getReadWriteLock', true),
  ];
}

// Prepares the Java worker: Redisson from Maven Central, in the version of test/redisson, and the compiled worker.

const pom = fileURLToPath(new URL('../../test/redisson/pom.xml', import.meta.url));
const folder = fileURLToPath(new URL('.', import.meta.url));
const target = `${folder}target`;

/** Why there is no Redisson here. */
class NoRedissonError extends Error {}

/** Returns the class path. */
function buildRedissonWorker(): string {
  for (const [program, flag] of [
    ['java', '-version'],
    ['mvn', '-version'],
  ] as const) {
    if (spawnSync(program, [flag], { stdio: 'ignore' }).status !== 0)
      throw new NoRedissonError(`there is no ${program}`);
  }
  const classPath = `${target}:${target}/lib/*`;
  const stamp = `${target}/built-from`;
  const sources = readdirSync(folder)
    .filter((name) => name.endsWith('.java'))
    .map((name) => folder + name);
  const hash = createHash('sha256');
  for (const file of [pom, ...sources]) hash.update(readFileSync(file));
  const version = hash.digest('hex');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === version) return classPath;

  console.log('redisson: fetching it by Maven, compiling its worker');
  mkdirSync(target, { recursive: true });
  const copy = ['dependency:copy-dependencies', `-DoutputDirectory=${target}/lib`];
  run('mvn', ['--quiet', '--batch-mode', '-f', pom, ...copy]);
  run('javac', ['-d', target, '-cp', classPath, ...sources]);
  writeFileSync(stamp, version);
  return classPath;
}

function run(program: string, args: readonly string[]): void {
  const { status, stdout, stderr } = spawnSync(program, args, { encoding: 'utf8' });
  if (status !== 0) throw new NoRedissonError(`${program} failed:\n${stdout}${stderr}`);
}
