// Redisson's fenced lock and ours of one name are one lock with one counter.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { FencedLock, Holdfast } from '../../src/index.js';
import { nextEvent } from '../support/clients.js';
import { expectGrowing, FENCED_KINDS, passThrough } from '../support/fenced-locks.js';
import { LockKeys } from '../../src/redis/keys.js';
import { topologiesUnavailable } from '../support/redis-server.js';
import {
  redissonUnavailable,
  SharedServers,
  startRedisson,
  type Redisson,
  type RedissonClient,
  type RedissonLock,
} from '../support/redisson.js';
import { uniqueName } from '../support/unique-name.js';

/** `%` stands for the part that makes them unique. */
const NAMES = ['%', '{%}:x', '%:{a}'];

/** Redisson has no such locks in a cluster. */
const SPLIT_NAMES = ['{}%', '%}b', '%{b'];

describe.each([{ isCluster: false }, { isCluster: true }])(
  'beside Redisson (%o)',
  ({ isCluster }) => {
    const unavailable = redissonUnavailable ?? (isCluster ? topologiesUnavailable : undefined);
    if (unavailable !== undefined)
      console.log(`fenced locks beside Redisson: skipped: ${unavailable}`);

    describe.skipIf(unavailable).each(FENCED_KINDS)('$title', ({ options }) => {
      let servers: SharedServers;
      let java: Redisson;
      let redisson: RedissonClient;
      let client: Holdfast;
      let name: string;
      let ours: FencedLock;
      let theirs: RedissonLock;

      beforeAll(async () => {
        servers = await SharedServers.start(isCluster);
        java = startRedisson();
        redisson = await java.connect(servers.nodes);
      });

      beforeEach(async () => {
        client = servers.newHoldfast();
        take(uniqueName());
        await ours.isLocked();
      });

      afterEach(async () => {
        await client.close();
      });

      afterAll(async () => {
        await java.kill();
        await servers[Symbol.asyncDispose]();
      });

      function take(newName: string): void {
        name = newName;
        ours = client.getFencedLock(name, { ...options, tokenTtl: Infinity });
        theirs = redisson.getLock(name, 'fenced');
      }

      it.each(isCluster ? NAMES : [...NAMES, ...SPLIT_NAMES])(
        'under a name like %j both exclude each other, and their tokens grow in turn',
        async (shape) => {
          take(shape.replace('%', uniqueName()));
          const tokens: (bigint | undefined)[] = [];
          for (let round = 0; round < 3; round++) {
            const hold = await ours.acquire();
            tokens.push(hold.token);
            expect(await theirs.getToken()).toBe(hold.token);
            expect(await theirs.tryLockAndGetToken()).toBeUndefined();
            await hold.release();
            tokens.push(await theirs.lockAndGetToken());
            expect(await ours.getToken()).toBe(tokens.at(-1));
            expect(await ours.tryLockAndGetToken()).toBeUndefined();
            await theirs.unlock();
          }
          expectGrowing(tokens);
          expect(tokens).toHaveLength(6);
        },
      );

      it('each wakes the other, which gets a larger token', async () => {
        const tokens: (bigint | undefined)[] = [];
        for (let round = 0; round < 3; round++) {
          tokens.push(await theirs.lockAndGetToken());
          const waiting = nextEvent(client, 'waiting');
          const next = ours.acquire();
          await waiting;
          await servers.isListenedFor(name);
          await theirs.unlock();
          const hold = await next;
          tokens.push(hold.token);
          const waiter = theirs.of('waiter');
          const taken = waiter.lockAndGetToken();
          await servers.isListenedFor(name);
          await hold.release();
          tokens.push(await taken);
          await waiter.unlock();
        }
        expectGrowing(tokens);
      });

      it('a holder after Redisson, which counted from 1, has a larger token, and gives the counter no expiry', async () => {
        expect(await theirs.lockAndGetToken()).toBe(1n);
        expect(await theirs.lockAndGetToken()).toBe(2n); // it counts nested calls as well
        await theirs.unlock();
        await theirs.unlock();
        const weekly = client.getFencedLock(name, options);
        const token = await passThrough(weekly);
        expect(token).toBeGreaterThan(1_700_000_000_000_000n);
        const counter = new LockKeys(name).counter(isCluster);
        expect(await servers.redis.pttl(counter)).toBe(-1);
        expect(await theirs.lockAndGetToken()).toBe(token + 1n);
        await theirs.unlock();
      });
    });
  },
);
