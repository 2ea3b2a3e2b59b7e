// When a NestJS app closes: first its work ends, then its client releases and closes.
import { BullModule, getQueueToken, Processor, WorkerHost } from '@nestjs/bullmq';
import {
  Controller,
  Get,
  Global,
  Injectable,
  Module,
  type OnApplicationShutdown,
  type OnModuleDestroy,
} from '@nestjs/common';
import { Interval, ScheduleModule } from '@nestjs/schedule';
import { Test } from '@nestjs/testing';
import { Queue } from 'bullmq';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, inject, it } from 'vitest';
import {
  currentHold,
  HoldfastModule,
  type HoldfastModuleOptions,
  Lock,
} from '../../../src/adapters/nestjs.js';
import { Holdfast, LockLostError } from '../../../src/index.js';
import { gate } from '../../support/occupancy.js';
import { uniqueName } from '../../support/unique-name.js';

function locks(
  options: Partial<HoldfastModuleOptions> = {},
): ReturnType<typeof HoldfastModule.forRoot> {
  const keyPrefix = `${uniqueName('nest')}:`;
  return HoldfastModule.forRoot({ redis: inject('redisUrl'), keyPrefix, ...options });
}

/** Work under a lock: begins, goes on until it is let go, and then knows whether it still has the lock. */
class Work {
  readonly begun = gate();
  readonly end = gate();
  hadLock: boolean | undefined;

  async run(): Promise<string> {
    this.begun.open();
    await this.end.opened;
    this.hadLock = currentHold()?.signal.aborted === false;
    return 'done';
  }
}

describe('an app that closes', () => {
  it('lets a request end under its lock', async () => {
    const work = new Work();
    @Controller()
    class Orders {
      @Get()
      @Lock('orders')
      async ship(): Promise<string> {
        return await work.run();
      }
    }
    @Module({ imports: [locks()], controllers: [Orders] })
    class App {}
    const app = (
      await Test.createTestingModule({ imports: [App] }).compile()
    ).createNestApplication();
    await app.listen(0, '127.0.0.1');
    const client = app.get(Holdfast);
    const answer = fetch(await app.getUrl(), { headers: { connection: 'close' } });
    await work.begun.opened;
    const closing = app.close();
    await sleep(100);
    expect(client.status).toBe('ready');
    work.end.open();
    expect(await (await answer).text()).toBe('done');
    await closing;
    expect(work.hadLock).toBe(true);
    expect(client.status).toBe('closed');
  });

  it.each([
    ['before', 0],
    ['after', 2],
  ])(
    'lets a job of a queue end under its lock, if the module is imported %s that of the queue',
    async (_, at) => {
      const work = new Work();
      const queueName = uniqueName('jobs').replaceAll(':', '-');
      @Processor(queueName)
      class Worker extends WorkerHost {
        @Lock('jobs')
        override async process(): Promise<string> {
          return await work.run();
        }
      }
      const { hostname: host, port } = new URL(inject('redisUrl'));
      const connection = { host, port: Number(port) };
      const imports = [
        BullModule.forRoot({ connection }),
        BullModule.registerQueue({ name: queueName }),
      ];
      imports.splice(at, 0, locks({ drainTimeout: 0 }));
      const app = await Test.createTestingModule({ imports, providers: [Worker] }).compile();
      await app.init();
      const queue = app.get<Queue>(getQueueToken(queueName));
      const client = app.get(Holdfast);
      await queue.add('job', {}, { removeOnComplete: true });
      await work.begun.opened;
      const closing = app.close();
      await sleep(100);
      expect(client.status).toBe('ready');
      work.end.open();
      await closing;
      expect(work.hadLock).toBe(true);
      expect(client.status).toBe('closed');
      const left = new Queue(queueName, { connection });
      await left.obliterate({ force: true });
      await left.close();
    },
  );

  it('waits for a scheduled run under a lock, for which Nest does not wait, before it closes a database', async () => {
    const work = new Work();
    let hasDatabase = true;
    @Injectable()
    class Database implements OnApplicationShutdown {
      onApplicationShutdown(): void {
        hasDatabase = false;
      }
    }
    @Injectable()
    class Reports {
      hadDatabase: boolean | undefined;

      @Interval(10)
      @Lock('nightly', { onBusy: 'skip' })
      async write(): Promise<void> {
        await work.run();
        this.hadDatabase = hasDatabase;
      }
    }
    const imports = [ScheduleModule.forRoot(), locks()];
    const providers = [Reports, Database];
    const app = await Test.createTestingModule({ imports, providers }).compile();
    await app.init();
    await work.begun.opened;
    const closing = app.close();
    await sleep(100);
    work.end.open();
    await closing;
    expect([work.hadLock, app.get(Reports).hadDatabase, hasDatabase]).toEqual([true, true, false]);
  });

  it('takes the lock from a run that goes on for longer than drainTimeout', async () => {
    const work = new Work();
    @Injectable()
    class Reports {
      @Lock('nightly')
      async write(): Promise<string> {
        return await work.run();
      }
    }
    const imports = [locks({ drainTimeout: 50 })];
    const app = await Test.createTestingModule({ imports, providers: [Reports] }).compile();
    await app.init();
    const written = app.get(Reports).write();
    const lost = expect(written).rejects.toThrow(LockLostError);
    await work.begun.opened;
    await app.close();
    work.end.open();
    await lost;
    expect(work.hadLock).toBe(false);
  });

  it('ends what waits for a lock', async () => {
    @Injectable()
    class Reports {
      @Lock('nightly')
      async write(): Promise<void> {
        await Promise.resolve();
      }
    }
    const imports = [locks()];
    const app = await Test.createTestingModule({ imports, providers: [Reports] }).compile();
    const hold = await app.get(Holdfast).getLock('nightly').acquire();
    const waiting = expect(app.get(Reports).write()).rejects.toThrow('closed');
    await app.close();
    await waiting;
    expect(hold.signal.aborted).toBe(true);
  });

  it('has its locks in all phases of the shut-down', async () => {
    const phases: string[] = [];
    @Injectable()
    class Reports implements OnModuleDestroy, OnApplicationShutdown {
      @Lock('last')
      async write(phase: string): Promise<void> {
        await Promise.resolve(phases.push(phase));
      }

      async onModuleDestroy(): Promise<void> {
        await this.write('destroy');
      }

      async onApplicationShutdown(): Promise<void> {
        await this.write('shutdown');
      }
    }
    @Global()
    @Module({ providers: [Reports] })
    class ReportsModule {}
    const imports = [ReportsModule, locks()];
    const app = await Test.createTestingModule({ imports }).compile();
    await app.init();
    await app.close();
    expect(phases).toEqual(['destroy', 'shutdown']);
  });
});
