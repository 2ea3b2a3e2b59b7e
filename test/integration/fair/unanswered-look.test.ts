// The reentrant lock of the same name, released at a moment at which the first in line for the fair lock is just looking.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Holdfast } from '../../../src/index.js';
import { newClient, nextEvent, proxyPerTest, sharedConnection } from '../../support/clients.js';
import { FairLine } from '../../support/fair-line.js';
import { startGrantProxy, type GrantProxy } from '../../support/grant-proxy.js';
import { commandOf } from '../../support/lock-commands.js';

/** A release that is not heard is found out about after a third of it. */
const LEASE_MS = 60_000;
const SOON_MS = 10_000;

const redis = sharedConnection();
/** Between the server and the other proxy. */
const proxy = proxyPerTest();
let outer: GrantProxy;
let line: FairLine;
let holder: Holdfast;
let other: Holdfast;
/** Goes through both proxies. */
let client: Holdfast;

beforeEach(async () => {
  line = new FairLine(redis);
  outer = await startGrantProxy(proxy().url);
  const options = { lockWatchdogTimeout: LEASE_MS, commandTimeout: 10_000 };
  holder = newClient(options);
  other = newClient(options);
  client = newClient({ ...options, redis: outer.url });
});

afterEach(async () => {
  await line.isGone();
  await Promise.all([holder, other, client].map((each) => each.close()));
  await outer[Symbol.asyncDispose]();
});

it('its release is heard while a look that came too early is not answered', async () => {
  const hold = await holder.getLock(line.name).acquire();
  const waiting = nextEvent(other, 'waiting');
  const acquiring = other.getLock(line.name).acquire();
  await waiting;
  const fair = await line.join(client, 'fair');
  proxy().delay({ downstreamMs: 300 });
  const look = proxy().copyNext(commandOf('handOver', line.name));
  await hold.release();
  const plain = await acquiring;
  await look.happened; // and found the lock held again
  outer.setCommands('hold'); // its answer, that is; messages pass
  await plain.release();
  await sleep(600);
  const freeAt = performance.now();
  proxy().delay();
  outer.setCommands('pass');
  await fair.done;
  expect(performance.now() - freeAt).toBeLessThan(SOON_MS);
});
