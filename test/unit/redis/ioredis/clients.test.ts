// What our own clients are made with, whatever the user's was.
import { Cluster } from 'ioredis';
import { expect, it } from 'vitest';
import { clientLike } from '../../../../src/redis/ioredis/clients.js';

it('a node of a cluster is asked whether it is ready', () => {
  const redisOptions = { enableReadyCheck: false };
  const template = new Cluster([{ host: 'h' }], { lazyConnect: true, redisOptions });
  const ours = clientLike(template, 5_000);
  ours.disconnect();
  template.disconnect();
  expect(ours.options).toMatchObject({ redisOptions: { enableReadyCheck: true } });
});
