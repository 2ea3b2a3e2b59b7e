// A MultiLock with a server that is unreachable for a while.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { connectedClient, proxyPerTest } from '../../support/clients.js';
import { membersPerTest } from '../../support/multi-locks.js';
import { uniqueName } from '../../support/unique-name.js';

const members = membersPerTest();
const proxy = proxyPerTest();

it('a MultiLock waits until its wait ends while the server of a member is unreachable', async () => {
  const { client, a } = members();
  await using far = await connectedClient({ redis: proxy().url, commandTimeout: 500 });
  const multi = client.getMultiLock(a, far.getLock(uniqueName('far')));
  await a.isLocked();
  proxy().refuse();
  proxy().cut();
  const outcome = multi.tryLock(8_000).catch((error: unknown) => String(error));
  await sleep(1_500);
  await proxy().accept();
  const result = await outcome;
  if (result === true) await multi.unlock();
  expect(result).toBe(true);
});

it('a MultiLock holds nothing while it waits for a server', async () => {
  const { client, a, others } = members();
  await using far = await connectedClient({ redis: proxy().url, commandTimeout: 3_000 });
  const multi = client.getMultiLock(a, far.getLock(uniqueName('far')));
  await a.isLocked();
  proxy().refuse();
  proxy().cut();
  await sleep(100); // noticed
  const outcome = multi.tryLock(2_000).catch((error: unknown) => String(error));
  await sleep(300);
  const isFree = await others.a.tryLock();
  if (isFree) await others.a.unlock();
  await outcome;
  await proxy().accept();
  expect(isFree).toBe(true);
});
