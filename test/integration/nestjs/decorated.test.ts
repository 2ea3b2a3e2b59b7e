// Methods under @Lock in real NestJS apps: controllers, guards, schedules, queue workers.
import {
  type CanActivate,
  Controller,
  type ExecutionContext,
  Get,
  Inject,
  Injectable,
  Module,
  Param,
  ParseIntPipe,
  Query,
  Scope,
  SetMetadata,
  UseGuards,
} from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { getQueueToken, BullModule, Processor, WorkerHost } from '@nestjs/bullmq';
import { Cron, ScheduleModule, SchedulerRegistry } from '@nestjs/schedule';
import { Test } from '@nestjs/testing';
import type { Job, Queue } from 'bullmq';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, inject, it } from 'vitest';
import { currentHold, HoldfastModule, Lock } from '../../../src/adapters/nestjs.js';
import { Holdfast } from '../../../src/index.js';
import { Occupancy } from '../../support/occupancy.js';
import { uniqueName } from '../../support/unique-name.js';

/** A client of the app on the shared server, whose locks no other test has, and another client of them. */
function locks(): { module: ReturnType<typeof HoldfastModule.forRoot>; other: Holdfast } {
  const options = { redis: inject('redisUrl'), keyPrefix: `${uniqueName('nest')}:` };
  return { module: HoldfastModule.forRoot(options), other: new Holdfast(options) };
}

describe("a controller's method under @Lock", () => {
  @Injectable()
  class Roles implements CanActivate {
    @Inject(Reflector) readonly reflector!: Reflector;

    canActivate(context: ExecutionContext): boolean {
      const role = this.reflector.get<string | undefined>('role', context.getHandler());
      return role === context.switchToHttp().getRequest<{ query: { role: string } }>().query.role;
    }
  }

  it.each([
    ['', Scope.DEFAULT],
    [' of each request', Scope.REQUEST],
  ])('keeps its route, guard, pipes and parameters, in a controller%s', async (_, scope) => {
    const occupancy = new Occupancy();
    @Controller({ path: 'orders', scope })
    class Orders {
      @Lock('orders:{0}', { wait: 5_000 })
      @Get(':id/above')
      @SetMetadata('role', 'clerk')
      @UseGuards(Roles)
      async above(
        @Param('id', ParseIntPipe) id: number,
        @Query('role') role: string,
      ): Promise<object> {
        return await this.answer(id, role);
      }

      @Get(':id/below')
      @SetMetadata('role', 'clerk')
      @UseGuards(Roles)
      @Lock('orders:{0}', { wait: 5_000 })
      async below(
        @Param('id', ParseIntPipe) id: number,
        @Query('role') role: string,
      ): Promise<object> {
        return await this.answer(id, role);
      }

      async answer(id: number, role: string): Promise<object> {
        const name = currentHold()?.lockName;
        return await occupancy.inside('request', () => sleep(5, { id, role, name }));
      }
    }
    const { module, other } = locks();
    @Module({ imports: [module], controllers: [Orders], providers: [Roles] })
    class App {}
    const app = (
      await Test.createTestingModule({ imports: [App] }).compile()
    ).createNestApplication();
    await app.listen(0, '127.0.0.1');
    const get = async (path: string): Promise<unknown> => {
      const headers = { connection: 'close' };
      return await (await fetch(`${await app.getUrl()}/orders/${path}`, { headers })).json();
    };
    const right = { id: 7, role: 'clerk', name: 'orders:7' };
    const paths = ['7/above', '7/below', '7/above', '7/below'];
    const answers = await Promise.all(paths.map((path) => get(`${path}?role=clerk`)));
    expect(answers).toEqual([right, right, right, right]);
    expect(occupancy.most).toBe(1);
    expect(await get('7/above?role=guest')).toMatchObject({ statusCode: 403 });
    expect(await get('x/below?role=clerk')).toMatchObject({ statusCode: 400 });
    await app.close();
    expect(await other.getLock('orders:7').isLocked()).toBe(false);
    await other.close();
  });
});

describe('a method under @Lock and @Cron', () => {
  it('runs by the schedule, whichever of the two stands first, and is skipped if another process has the lock', async () => {
    const runs: string[] = [];
    @Injectable()
    class Reports {
      @Cron('0 0 1 1 *', { name: 'above' })
      @Lock('nightly:{{above}}', { onBusy: 'skip' })
      async above(): Promise<void> {
        await Promise.resolve(runs.push(currentHold()!.lockName));
      }

      @Lock('nightly:{{below}}', { onBusy: 'skip' })
      @Cron('0 0 1 1 *', { name: 'below' })
      async below(): Promise<void> {
        await Promise.resolve(runs.push(currentHold()!.lockName));
      }
    }
    const { module, other } = locks();
    const app = await Test.createTestingModule({
      imports: [module, ScheduleModule.forRoot()],
      providers: [Reports],
    }).compile();
    await app.init();
    const jobs = app.get(SchedulerRegistry);
    const tick = async (name: string): Promise<void> => {
      await (jobs.getCronJob(name).fireOnTick() as Promise<void> | undefined);
    };
    for (const name of ['above', 'below']) await tick(name);
    await expect.poll(() => runs).toEqual(['nightly:{above}', 'nightly:{below}']);
    const hold = await other.getLock('nightly:{above}').acquire();
    for (const name of ['above', 'below']) await tick(name);
    await expect.poll(() => runs).toHaveLength(3);
    await hold.release();
    await app.close();
    await other.close();
    expect(runs[2]).toBe('nightly:{below}');
  });
});

describe('the workers of two apps in one process', () => {
  it('process the jobs of one customer one after another, each with the client of its app', async () => {
    const occupancy = new Occupancy();
    const clients = new Set<string>();
    const queueName = uniqueName('jobs').replaceAll(':', '-');
    @Processor(queueName, { concurrency: 4 })
    class Worker extends WorkerHost {
      @Lock('customers:{data.customer}', { wait: 10_000 })
      override async process(job: Job<{ customer: string }>): Promise<string> {
        clients.add(currentHold()!.ownerId.replace(/:\d+$/, ''));
        return await occupancy.inside(job.data.customer, () => sleep(20, 'done'));
      }
    }
    const { hostname: host, port } = new URL(inject('redisUrl'));
    const { module, other } = locks();
    const start = async () => {
      const app = await Test.createTestingModule({
        imports: [
          BullModule.forRoot({ connection: { host, port: Number(port) } }),
          BullModule.registerQueue({ name: queueName }),
          module,
        ],
        providers: [Worker],
      }).compile();
      return await app.init();
    };
    const apps = [await start(), await start()];
    const queue = apps[0]!.get<Queue>(getQueueToken(queueName));
    const job = { name: 'job', data: { customer: 'x' } };
    await queue.addBulk(Array.from({ length: 12 }, () => job));
    await expect.poll(() => queue.getCompletedCount()).toBe(12);
    expect(occupancy.most).toBe(1);
    expect(occupancy.order).toHaveLength(12);
    expect(clients.size).toBe(2);
    await apps[1]!.close();
    await queue.obliterate({ force: true });
    await apps[0]!.close();
    await other.close();
  });
});
