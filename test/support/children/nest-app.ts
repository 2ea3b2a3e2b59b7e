// A NestJS app that counts in Redis who is under a lock.
//
// Environment: HOLDFAST_TEST_REDIS_URL, and HOLDFAST_TEST_NAME, the key prefix of its locks and counters.
// Tells: listening {url, nest}, the address of @nestjs/core; above and below {inside}, a scheduled method of this name ran, and how many
// processes were in it; closed {status}, that of the client after the app has closed.
// GET /orders/7?role=clerk -> {"id":7,"role":"clerk","inside":1}; with &ms=500 it takes so long, and tells "last" when it has begun.
// SIGTERM closes the app, and the process ends by that.
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
import { NestFactory, Reflector } from '@nestjs/core';
import { Cron, ScheduleModule } from '@nestjs/schedule';
import { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { HoldfastModule, Lock } from '../../../src/adapters/nestjs.js';
import { Holdfast } from '../../../src/index.js';
import { tell } from '../child-messages.js';

const url = process.env['HOLDFAST_TEST_REDIS_URL']!;
const keyPrefix = process.env['HOLDFAST_TEST_NAME']!;

const redis = new Redis(url, { keyPrefix });

/** How many were inside of what this counts, including the caller. */
async function inside(what: string, ms: number): Promise<number> {
  const count = await redis.incr(what);
  await sleep(ms);
  if ((await redis.decr(what)) === 0) await redis.del(what);
  return count;
}

@Injectable()
class Roles implements CanActivate {
  @Inject(Reflector) readonly reflector!: Reflector;

  canActivate(context: ExecutionContext): boolean {
    const role = this.reflector.get<string | undefined>('role', context.getHandler());
    return role === context.switchToHttp().getRequest<{ query: { role: string } }>().query.role;
  }
}

@Controller({ path: 'orders', scope: Scope.REQUEST })
class Orders {
  @Get(':id')
  @Lock('orders:{0}', { wait: 20_000 })
  @SetMetadata('role', 'clerk')
  @UseGuards(Roles)
  async ship(
    @Param('id', ParseIntPipe) id: number,
    @Query('role') role: string,
    @Query('ms') ms?: string,
  ): Promise<object> {
    if (ms) tell('last');
    return { id, role, inside: await inside(`requests:${id}`, Number(ms ?? 5)) };
  }
}

@Injectable()
class Reports {
  @Cron('* * * * * *')
  @Lock('nightly:above', { onBusy: 'skip' })
  async above(): Promise<void> {
    tell('above', { inside: await inside('above', 50) });
  }

  @Lock('nightly:below', { onBusy: 'skip' })
  @Cron('* * * * * *')
  async below(): Promise<void> {
    tell('below', { inside: await inside('below', 50) });
  }
}

@Module({
  imports: [
    ScheduleModule.forRoot(),
    HoldfastModule.forRootAsync({
      useFactory: () => ({ redis: url, keyPrefix }),
    }),
  ],
  controllers: [Orders],
  providers: [Roles, Reports],
})
class AppModule {}

const app = await NestFactory.create(AppModule);
await app.listen(0, '127.0.0.1');
process.once('SIGTERM', () => {
  void app.close().then(() => {
    tell('closed', { status: app.get(Holdfast).status });
    redis.disconnect();
    process.disconnect();
  });
});
tell('listening', { url: await app.getUrl(), nest: import.meta.resolve('@nestjs/core') });
