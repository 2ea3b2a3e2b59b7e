// A grant that was true once: it comes when its place is gone, or when the lock has another lease since, and is not taken.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Hold, Holdfast } from '../../../src/index.js';
import { newClient, proxyPerTest, sharedConnection } from '../../support/clients.js';
import { FairLine, type Caller } from '../../support/fair-line.js';
import { startGrantProxy, type GrantProxy } from '../../support/grant-proxy.js';
import { commandOf } from '../../support/lock-commands.js';
import { gate } from '../../support/occupancy.js';

const LEASE_MS = 6_000;

const redis = sharedConnection();
/** Between the server and the other proxy. */
const proxy = proxyPerTest();
let grants: GrantProxy;
let line: FairLine;
let holder: Holdfast;
/** Goes through both proxies. */
let first: Holdfast;
let second: Holdfast;
let hold: Hold;

beforeEach(async () => {
  line = new FairLine(redis);
  grants = await startGrantProxy(proxy().url);
  const options = { lockWatchdogTimeout: LEASE_MS };
  holder = newClient(options);
  first = newClient({ ...options, redis: grants.url });
  second = newClient(options);
  hold = await line.lockOf(holder).acquire();
});

afterEach(async () => {
  await line.isGone();
  await Promise.all([holder, first, second].map((client) => client.close()));
  await grants[Symbol.asyncDispose]();
});

it('from before its place was gone, while it joins again: it waits for its turn', async () => {
  const waiting = await line.join(first, 'first');
  const { caller, end } = await joinUntilTold();
  grants.setGrants('hold');
  await hold.release();
  await line.lockOf(holder).forceUnlock();
  proxy().delay({ downstreamMs: 300 });
  await proxy().copyNext(commandOf('join', line.name)).happened;
  grants.setGrants('pass'); // while the join is not answered
  await sleep(600);
  expect(line.turns).toEqual(['second']);
  expect(await line.holder()).toBe(caller.ownerId);
  proxy().delay();
  end();
  await Promise.all([caller.done, waiting.done]);
  expect(line.turns).toEqual(['second', 'first']);
  await redis.del(`holdfast_forced:{${line.name}}`); // its owner never knew that it had the lock
});

it('to a join whose answer is lost, with a lease that is short: one at a time has the lock', async () => {
  const lease = 1_000;
  const waiting = await line.join(first, 'first', { lease });
  const { caller, end } = await joinUntilTold();
  grants.setGrants('hold');
  const joined = proxy().loseReplyTo(commandOf('join', line.name));
  await redis.del(line.keys[1], line.keys[2]);
  await joined.happened; // its renewal told it that its place is gone
  proxy().refuse();
  await hold.release();
  expect(await line.holder()).toBe(waiting.ownerId);
  const joinedAgain = proxy().loseReplyTo(commandOf('join', line.name));
  await proxy().accept();
  await joinedAgain.happened;
  proxy().refuse();
  grants.setGrants('pass');
  await sleep(1.2 * lease); // in which it reaches nobody
  await line.lockOf(holder).tryAcquire(); // sees to it that a free lock goes to the next
  await sleep(200);
  await proxy().accept();
  await sleep(500);
  end();
  await Promise.all([caller.done, waiting.done]);
  expect([...line.turns].sort()).toEqual(['first', 'second']);
});

/** The second one in line, which keeps the lock until `end`. */
async function joinUntilTold(): Promise<{ caller: Caller; end: () => void }> {
  const { opened, open } = gate();
  return { caller: await line.join(second, 'second', { body: () => opened }), end: open };
}
