// The README's example: a process that is stopped past its lease writes late, and is refused.
import { inject, beforeEach, expect, it } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { startChild, type Child } from '../../support/child.js';
import { newClient, sharedConnection } from '../../support/clients.js';
import { edit } from '../../recipes/fencing.js';
import { uniqueName } from '../../support/unique-name.js';

const LEASE_MS = 2_000;

const redis = sharedConnection();
let id: string;

beforeEach(() => {
  id = uniqueName('document');
});

function startEditor(): Child {
  return startChild('document-editor.ts', {
    HOLDFAST_TEST_REDIS_URL: inject('redisUrl'),
    HOLDFAST_TEST_DOCUMENT: id,
    HOLDFAST_TEST_LEASE: String(LEASE_MS),
  });
}

it('a holder that is stopped past its lease continues, writes, and is refused', async () => {
  await using client = newClient();
  await using editor = startEditor();
  await editor.next('editing');
  process.kill(editor.pid, 'SIGSTOP');
  await edit(client, redis, id, (text) => Promise.resolve(`${text}B`)); // when the lease is over
  process.kill(editor.pid, 'SIGCONT');
  editor.send({ type: 'finish', text: 'A' });
  const { message } = await editor.next('failed');
  expect(message).toMatch(/not written: \d{16} is not the latest token$/);
  expect(await redis.hget(id, 'text')).toBe('B');
  await redis.del(id);
});

it('a slow holder that keeps its lease writes in its turn', async () => {
  await using client = newClient();
  await using editor = startEditor();
  await editor.next('editing');
  const next = edit(client, redis, id, (text) => Promise.resolve(`${text}B`));
  await sleep(2 * LEASE_MS);
  editor.send({ type: 'finish', text: 'A' });
  await editor.next('written');
  await next;
  expect(await redis.hget(id, 'text')).toBe('AB');
  await redis.del(id);
});
