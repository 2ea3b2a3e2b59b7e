// Readers and writers in several processes, while those are stopped and killed and answers are lost: whoever writes is alone, as far as
// everybody believes to be inside.
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { startChild, type Child } from '../../support/child.js';
import { insideKeys } from '../../support/inside-oracle.js';
import { loadScripts } from '../../support/lock-commands.js';
import { TestReadWriteLock } from '../../support/weighted-locks.js';
import { startRedis } from '../../support/redis-server.js';
import { startProxy } from '../../support/tcp-proxy.js';

const LEASE_MS = 1_000;
const TURMOIL_MS = 10_000;

it('five processes in turmoil: a writer is alone, and everybody gets in', async () => {
  await using server = await startRedis();
  await using proxy = await startProxy(Number(new URL(server.url).port));
  const redis = new Redis(server.url);
  await loadScripts(server.url);
  const lock = new TestReadWriteLock(redis);
  const start = (url: string): Child =>
    startChild('reader-writer.ts', {
      HOLDFAST_TEST_REDIS_URL: url,
      HOLDFAST_TEST_ORACLE_URL: server.url,
      HOLDFAST_TEST_LOCK: lock.name,
      HOLDFAST_TEST_OPTIONS: JSON.stringify({
        lockWatchdogTimeout: LEASE_MS,
        commandTimeout: 5_000,
      }),
    });
  // Of the first two, answers are lost; the last one is killed, and another one comes.
  const children = [start(proxy.url), start(proxy.url), start(server.url), start(server.url)];
  const victim = start(server.url);
  await Promise.all([...children, victim].map((child) => child.next('ready', 60_000)));

  proxy.treatCommands((args) => {
    if (Math.random() > 0.01 || !/^evalsha$/i.test(String(args[0]))) return undefined;
    return { kind: 'lose reply', then: 'cut', done: () => undefined };
  });
  const endMs = performance.now() + TURMOIL_MS;
  const stopping = async (): Promise<void> => {
    while (performance.now() < endMs) {
      await sleep(200 + Math.random() * 500);
      const child = children[Math.floor(Math.random() * children.length)]!;
      child.pause();
      await sleep(Math.random() * 2 * LEASE_MS);
      child.resume();
    }
  };
  const killing = sleep(TURMOIL_MS / 2).then(async () => {
    await victim.kill();
    const successor = start(server.url);
    children.push(successor);
    await successor.next('ready', 60_000);
  });
  await Promise.all([stopping(), killing]);
  proxy.treatCommands();

  const reports: Record<string, unknown>[] = [];
  for (const child of children) {
    child.send({ type: 'stop' });
    reports.push(await child.next('stopped', 100_000));
  }
  const [inside, meetings, meeting] = insideKeys(lock.name);
  expect(await redis.get(meeting!)).toBeNull();
  expect(await redis.get(meetings!)).toBeNull();
  const sum = (what: string): number =>
    reports.reduce((total, report) => total + Number(report[what]), 0);
  for (const what of ['reads', 'writes', 'downgrades']) expect(sum(what)).toBeGreaterThan(5);
  const allowed = ['LOCK_TIMEOUT', 'LOCK_LOST', 'REDIS_UNAVAILABLE'];
  for (const { codes } of reports)
    expect(allowed).toEqual(expect.arrayContaining(Object.keys(codes as object)));
  await lock.isGone();
  await redis.del(inside!);
  redis.disconnect();
}, 240_000);
