// The recipe for NestJS does what the page says, on a server in memory.
import type { INestApplication } from '@nestjs/common';
import { ScheduleModule, SchedulerRegistry } from '@nestjs/schedule';
import { Test } from '@nestjs/testing';
import { expect, it, vi } from 'vitest';
import { HoldfastModule } from '../../../src/adapters/nestjs.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';
import { Orders, Reports } from '../../recipes/nestjs.js';

async function start(redis: MemoryRedis): Promise<INestApplication> {
  const app = await Test.createTestingModule({
    imports: [ScheduleModule.forRoot(), HoldfastModule.forRoot({ redis, wait: 5_000 })],
    controllers: [Orders],
    providers: [Reports],
  }).compile();
  return await app.createNestApplication().init();
}

it('ships one order after another', async () => {
  const app = await start(new MemoryRedis());
  const orders = app.get(Orders);
  expect(await Promise.all([orders.ship(7), orders.ship(7)])).toEqual([
    { label: 'order 7', count: 1 },
    { label: 'order 7', count: 2 },
  ]);
  await app.close();
});

it('writes each report in one process, also if the clock of another one runs behind', async () => {
  const asked = vi.spyOn(globalThis, 'fetch').mockResolvedValue(new Response());
  const redis = new MemoryRedis();
  const apps = [await start(redis), await start(redis)];
  const [first, second] = apps.map((app) => app.get(SchedulerRegistry).getCronJob('nightly'));
  const written = (): number[] => apps.map((app) => app.get(Reports).writtenCount);
  await first?.fireOnTick();
  await redis.advance(30_000);
  await second?.fireOnTick();
  await redis.advance(1_000);
  expect(written()).toEqual([1, 0]);
  await redis.advance(60_000);
  await second?.fireOnTick();
  await redis.advance(1_000);
  expect(written()).toEqual([1, 1]);
  expect(asked).toHaveBeenCalledTimes(2);
  await Promise.all(apps.map((app) => app.close()));
});
