// The health indicator, asked by @nestjs/terminus.
import type { ServiceUnavailableException } from '@nestjs/common';
import { HealthCheckService, TerminusModule } from '@nestjs/terminus';
import { Test } from '@nestjs/testing';
import { expect, inject, it } from 'vitest';
import { HoldfastHealthIndicator, HoldfastModule } from '../../../src/adapters/nestjs.js';
import { OptionError } from '../../../src/index.js';
import { rejectionOf } from '../../support/clients.js';
import { expectOutages } from '../../support/expected-warnings.js';

expectOutages();

it('says whether Redis answers, for each client', async () => {
  const app = await Test.createTestingModule({
    imports: [
      TerminusModule.forRoot({ logger: false }),
      HoldfastModule.forRoot({ redis: inject('redisUrl') }),
      HoldfastModule.forRoot({
        redis: 'redis://127.0.0.1:1',
        name: 'nowhere',
        commandTimeout: 500,
      }),
    ],
  }).compile();
  const [health, check] = [app.get(HoldfastHealthIndicator), app.get(HealthCheckService)];
  expect(await check.check([() => health.isHealthy('locks')])).toMatchObject({
    status: 'ok',
    details: { locks: { status: 'up', responseTime: expect.any(Number) as number } },
  });
  const down = check.check([
    () => health.isHealthy('locks'),
    () => health.isHealthy('others', { client: 'nowhere', timeout: 300 }),
  ]);
  const error = (await rejectionOf(down)) as ServiceUnavailableException;
  expect(error.getResponse()).toMatchObject({
    status: 'error',
    info: { locks: { status: 'up' } },
    error: { others: { status: 'down', message: expect.stringContaining('127.0.0.1') as string } },
  });
  await expect(health.isHealthy('locks', { timeout: -1 })).rejects.toThrow(OptionError);
  await app.close();
  expect(await health.isHealthy('locks')).toMatchObject({ locks: { status: 'down' } });
});
