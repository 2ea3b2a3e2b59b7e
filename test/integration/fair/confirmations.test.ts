// The command that sets the fixed lease of a lock that was handed over: it is repeated, delays nobody, and reports a loss.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Hold, Holdfast } from '../../../src/index.js';
import {
  newClient,
  nextEvent,
  proxyPerTest,
  rejectionOf,
  sharedConnection,
} from '../../support/clients.js';
import { EventLoopLag, eventually } from '../../support/time.js';
import { FairLine } from '../../support/fair-line.js';
import { commandOf } from '../../support/lock-commands.js';

const PLACE_LEASE_MS = 6_000;
const FIXED_LEASE_MS = 60_000;

const redis = sharedConnection();
const proxy = proxyPerTest();
let line: FairLine;
let holder: Holdfast;
let hold: Hold;

beforeEach(async () => {
  line = new FairLine(redis);
  holder = newClient({ lockWatchdogTimeout: PLACE_LEASE_MS });
  hold = await line.lockOf(holder).acquire();
});

afterEach(async () => {
  await line.isGone();
  await holder.close();
});

/** Goes through the proxy. */
function newReceiver(commandTimeout: number, lockWatchdogTimeout = PLACE_LEASE_MS): Holdfast {
  return newClient({ redis: proxy().url, lockWatchdogTimeout, commandTimeout });
}

/** Waits in line with a fixed lease. */
async function waiting(client: Holdfast): Promise<{ acquiring: Promise<Hold> }> {
  let acquiring!: Promise<Hold>;
  await line.joined(client.clientId, () => {
    acquiring = line.lockOf(client).acquire({ lease: FIXED_LEASE_MS });
  });
  return { acquiring };
}

it('the confirmation is repeated when the network is down for longer than commandTimeout', async () => {
  const commandTimeout = 400;
  await using receiver = newReceiver(commandTimeout);
  const { acquiring } = await waiting(receiver);
  const confirming = proxy().holdBack(commandOf('confirm', line.name));
  await hold.release();
  await confirming.happened;
  proxy().refuse();
  const handedOver = await acquiring;
  expect(handedOver.remaining()).toBeLessThanOrEqual(PLACE_LEASE_MS);
  await sleep(2 * commandTimeout);
  await proxy().accept();
  await eventually(async () => {
    expect(handedOver.remaining()).toBeGreaterThan(PLACE_LEASE_MS);
    expect(await redis.pttl(line.name)).toBeGreaterThan(PLACE_LEASE_MS);
  });
  await handedOver.release();
});

it('a release does not wait for the answer to the confirmation', async () => {
  const delayMs = 4_000;
  await using receiver = newReceiver(20_000);
  const { acquiring } = await waiting(receiver);
  const next = await line.join(holder, 'next');
  const confirming = proxy().copyNext(commandOf('confirm', line.name));
  await hold.release();
  const handedOver = await acquiring;
  proxy().delay({ downstreamMs: delayMs });
  await confirming.happened;
  using lag = new EventLoopLag();
  const startedAt = performance.now();
  const releasing = handedOver.release();
  await next.done;
  expect(performance.now() - startedAt).toBeLessThan(delayMs / 2 + lag.longestMs);
  proxy().delay();
  await releasing;
});

it('a key that became something else is reported as a loss at once', async () => {
  await using receiver = newReceiver(10_000, FIXED_LEASE_MS); // whose watchdog would find out after 20 s
  const lost = nextEvent(receiver, 'lost');
  const { acquiring } = await waiting(receiver);
  proxy().delay({ upstreamMs: 1_000 });
  await hold.release();
  const handedOver = await acquiring;
  const changedAt = performance.now();
  await redis.set(line.name, 'something else'); // before the confirmation arrives
  proxy().delay();
  expect(await lost).toMatchObject({ lossReason: 'taken' });
  expect(performance.now() - changedAt).toBeLessThan(10_000);
  expect(handedOver.signal.aborted).toBe(true);
  expect(await rejectionOf(handedOver.release())).toMatchObject({ code: 'LOCK_LOST' });
  expect(await redis.get(line.name)).toBe('something else');
  await redis.del(line.name);
});
