// The server in memory against a real one: random calls of all scripts get the same answers from both, leave the same keys with the same
// contents and ends, and publish the same messages. HOLDFAST_SCRIPT_CALLS sets how many, HOLDFAST_SEED repeats a failure.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Random } from '../../chaos/random.js';
import { debugging, ServerClock } from '../../chaos/stage/server.js';
import { BothServers } from '../../support/both-servers.js';
import {
  startRedisProcess,
  topologiesUnavailable,
  type RedisServer,
} from '../../support/redis-server.js';
import { randomStep } from '../../support/script-calls.js';

const CALLS = Number(process.env['HOLDFAST_SCRIPT_CALLS'] ?? 20_000);
const SEED = process.env['HOLDFAST_SEED'];
const STEPS_OF_ONE_RUN = 100;
/** Half of the steps, and most of them are calls. */
const CALLS_OF_ONE_RUN = 33;

const unavailable = topologiesUnavailable ?? ServerClock.unavailable;
if (unavailable !== undefined) console.log(`scripts.test.ts: skipped: ${unavailable}`);

describe.skipIf(unavailable)('the server in memory', () => {
  let folder: string;
  let server: RedisServer;
  let servers: BothServers;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'holdfast-memory-'));
    const clock = (await ServerClock.create(folder))!;
    await clock.stand(Date.UTC(2030, 0) * 1_000);
    server = await startRedisProcess({ env: clock.env, args: debugging() });
    servers = new BothServers(server, clock);
    await servers.open();
  }, 60_000);

  afterAll(async () => {
    servers.close();
    await server[Symbol.asyncDispose]();
    await rm(folder, { recursive: true });
  });

  it(`does the same as a real server in ${CALLS} random calls of all scripts`, async () => {
    const seeds = fc.array(fc.nat(), { minLength: 1, maxLength: STEPS_OF_ONE_RUN, size: 'max' });
    const property = fc.asyncProperty(seeds, async (steps) => {
      await servers.begin();
      for (const step of steps) await servers.play(randomStep(new Random(step), servers.past));
      await servers.end();
    });
    await fc.assert(property, {
      numRuns: Math.ceil(CALLS / CALLS_OF_ONE_RUN),
      endOnFailure: false,
      ...(SEED ? { seed: Number(SEED) } : {}),
    });
    expect(servers.callCount).toBeGreaterThan(0.9 * CALLS);
  }, 7_200_000);
});
