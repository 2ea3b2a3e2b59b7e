// The real Redisson, in processes of Java.

import { readFileSync } from 'node:fs';
import type { Contender } from '../rows/contenders.js';
import { WorkerProcess } from '../worker/worker-process.js';
import { buildRedissonWorker, NoRedissonError } from './build.js';

/** Enough for ten thousand threads in line; a stack of the default size is only reserved. */
const JVM = ['-Xmx1g', '-XX:+UseParallelGC', '-Xss256k', '-Dslf4j.internal.verbosity=ERROR'];

/** None where it cannot be built, which is said. */
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
