// A command that a connection was to send at the end of the turn goes first, whatever else is sent meanwhile.
import { expect, inject, it, vi } from 'vitest';
import { Listeners } from '../../../src/core/events.js';
import { RedisClient } from '../../../src/redis/client.js';
import { libraryFor } from '../../../src/redis/installed.js';
import { scripts } from '../../../src/redis/scripts.generated.js';
import { eventually } from '../../support/time.js';
import { uniqueName } from '../../support/unique-name.js';

const ways: [string, (connection: RedisClient) => Promise<unknown> | undefined][] = [
  ['the end of the turn', () => undefined],
  ['a script', (one) => one.run(scripts.release, [uniqueName()], ['me:1', '', ''], () => 1)],
  ['a command', (one) => one.command('exists', uniqueName())],
  ['the end of the connection', (one) => one.close()],
];

it.each(ways)('%s sends a postponed command, once', async (way, act) => {
  const library = libraryFor(inject('redisUrl'));
  const options = { library, silenceLimitMs: 10_000, replicas: 0, commandTimeoutMs: 1_000 };
  const connection = new RedisClient(options, new Listeners());
  await eventually(() => {
    expect(connection.isReady).toBe(true);
    return Promise.resolve();
  });
  // The server was greeted and given the scripts: their answers may be on their way.
  await expect.poll(() => connection.isBusy).toBe(false);
  const send = vi.fn();
  connection.postpone(send);
  expect(connection.isBusy).toBe(true);
  expect(send).not.toHaveBeenCalled();
  const acted = act(connection);
  expect(send).toHaveBeenCalledTimes(way === 'the end of the turn' ? 0 : 1);
  await acted;
  await new Promise(setImmediate);
  expect(send).toHaveBeenCalledOnce();
  expect(connection.isBusy).toBe(false);
  await connection.close();
});
