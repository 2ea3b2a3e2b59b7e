// A caller that gives up while it finds out who is first in line: none of its commands acquires the lock after that.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { FairLock, Holdfast } from '../../../src/index.js';
import {
  connectedClient,
  proxyPerTest,
  rejectionOf,
  sharedConnection,
} from '../../support/clients.js';
import { FairLine } from '../../support/fair-line.js';
import { commandOf } from '../../support/lock-commands.js';

/** How long each answer takes. */
const DELAY_MS = 250;

/** Remains that last this long would be noticed. */
const LEASE_MS = 3_600_000;

const redis = sharedConnection();
const proxy = proxyPerTest();
let line: FairLine;
let client: Holdfast;
let lock: FairLock;

/** The lock is free, with a dead waiter in line: a join is followed by a hand-over, and that by a second join. */
beforeEach(async () => {
  line = new FairLine(redis);
  client = await connectedClient({ redis: proxy().url, commandTimeout: 10_000 });
  lock = line.lockOf(client);
  await redis.zadd(line.keys[1], 1, 'dead:1');
  await redis.hset(line.keys[2], 'dead:1', '1 1 0 1 token');
  proxy().delay({ downstreamMs: DELAY_MS });
});

afterEach(async () => {
  await client.close();
});

async function expectNothingStays(): Promise<void> {
  await sleep(4 * DELAY_MS);
  await line.isGone();
}

describe.each([
  ['its first join', 'join'],
  ['its hand-over', 'handOver'],
] as const)('while %s is not answered', (_title, script) => {
  it('the caller may abort', async () => {
    const sent = proxy().copyNext(commandOf(script, line.name));
    const aborter = new AbortController();
    const acquiring = rejectionOf(lock.acquire({ lease: LEASE_MS, signal: aborter.signal }));
    await sent.happened;
    aborter.abort();
    expect(await acquiring).toMatchObject({ code: 'LOCK_ABORTED' });
    await expectNothingStays();
  });

  it('its client may close', async () => {
    const sent = proxy().copyNext(commandOf(script, line.name));
    const acquiring = rejectionOf(lock.acquire({ lease: LEASE_MS }));
    await sent.happened;
    await client.close();
    expect(await acquiring).toMatchObject({ code: 'CLIENT_CLOSED' });
    await expectNothingStays();
  });
});

it.each([0.5, 1.5, 2.5])('its wait may end, after %f answers', async (answers) => {
  const wait = answers * DELAY_MS;
  await lock.acquire({ lease: LEASE_MS, wait }).then(
    (hold) => hold.release(), // with the third answer come early
    () => undefined,
  );
  await expectNothingStays();
});
