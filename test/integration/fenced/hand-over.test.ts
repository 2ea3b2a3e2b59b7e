// How a fenced lock changes hands: within a client only by a command to the server, and between locks of one name of which some have no
// tokens.
import { beforeEach, describe, expect, it } from 'vitest';
import type { FencedHold, Hold, Lock } from '../../../src/index.js';
import {
  connectedClient,
  newClient,
  nextEvent,
  proxyPerTest,
  sharedConnection,
} from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import {
  counterOf,
  expectGrowing,
  FENCED_KINDS,
  memoryMs,
  passThrough,
} from '../../support/fenced-locks.js';
import { commandOf } from '../../support/lock-commands.js';
import { uniqueName } from '../../support/unique-name.js';

const DAY_MS = 86_400_000;

const redis = sharedConnection();
let name: string;

beforeEach(() => {
  name = uniqueName('fenced');
});

describe('among callers of one client', () => {
  it('a fenced lock serves the callers in line, each as an owner of its own with a token of its own', async () => {
    await using client = newClient({ lockWatchdogTimeout: 30_000 });
    const turns: [number, string, bigint][] = [];
    const lock = client.getFencedLock(name);
    await using first = await lock.acquire();
    const callers = [1, 2, 3, 4, 5].map((index) =>
      lock.withLock(({ ownerId, token }) => void turns.push([index, ownerId, token])),
    );
    await first.release();
    await Promise.all(callers);
    expect(turns.map(([index]) => index)).toEqual([1, 2, 3, 4, 5]);
    expect(new Set(turns.map(([, ownerId]) => ownerId)).size).toBe(5);
    expectGrowing([first.token, ...turns.map(([, , token]) => token)]);
  });

  it.each([
    ['fenced', 'plain'],
    ['plain', 'fenced'],
  ] as const)(
    'a %s lock is handed over to a caller of a %s one, with a token if that is fenced',
    async (former, latter) => {
      await using client = newClient({ lockWatchdogTimeout: 30_000 });
      const locks = { fenced: client.getFencedLock(name), plain: client.getLock(name) };
      const hold: Hold = await locks[former].acquire();
      const waiting = nextEvent(client, 'waiting');
      const next: Promise<Hold> = locks[latter].acquire();
      await waiting;
      await hold.release();
      await using theirs = await next;
      expect(theirs.ownerId).not.toBe(hold.ownerId);
      expect([hold.token, theirs.token].map((token) => typeof token)).toEqual(
        former === 'fenced' ? ['bigint', 'undefined'] : ['undefined', 'bigint'],
      );
    },
  );

  it('tryLockAndGetToken() sends nothing while its own client has the lock', async () => {
    await using client = newClient();
    const lock = client.getFencedLock(name);
    await using hold = await lock.acquire();
    expect(await lock.tryLockAndGetToken()).toBeUndefined();
    expect(await redis.get(counterOf(name))).toBe(String(hold.token));
  });
});

describe.each(FENCED_KINDS)('$title, after a plain or fair lock of its name', ({ options }) => {
  it.each(['getLock', 'getFairLock'] as const)('%s', async (other) => {
    await using one = newClient();
    await using two = newClient();
    const fenced = one.getFencedLock(name, options);
    const plain: Lock = two[other](name);
    const tokens = [await passThrough(fenced)];
    for (let round = 0; round < 3; round++) {
      const hold = await plain.acquire();
      let waiting = nextEvent(one, 'waiting');
      const next: Promise<FencedHold> = fenced.acquire({ lease: round === 1 ? 4_000 : undefined });
      await waiting;
      await hold.release();
      const mine = await next;
      tokens.push(mine.token);
      waiting = nextEvent(two, 'waiting');
      const theirs = plain.acquire();
      await waiting;
      await mine.release();
      const taken = await theirs;
      expect(taken.token).toBeUndefined();
      await taken.release();
    }
    expectGrowing(tokens);
  });
});

describe('the grant of a fenced fair lock', () => {
  const proxy = proxyPerTest();

  it('contains the token: the next holder enters without a command', async () => {
    await using one = newClient({ lockWatchdogTimeout: 30_000 });
    await using two = await connectedClient({ redis: proxy().url, lockWatchdogTimeout: 30_000 });
    const hold = await one.getFencedLock(name, { fair: true }).acquire();
    const line = `holdfast_line:{${name}}`;
    const next = two.getFencedLock(name, { fair: true }).acquire();
    const [owner] = await eventually(async () => {
      const owners = await redis.zrange(line, '0', '-1');
      expect(owners).toHaveLength(1);
      expect(await redis.hget(`holdfast_places:{${name}}`, owners[0]!)).toMatch(/^\d+ \d+ 2 1 /);
      return owners;
    });
    // From now on no command of it would be answered.
    const asked = proxy().holdBack(commandOf('join', name), 'silence');
    void asked.happened.then(() => expect.fail('it asked'));
    await hold.release();
    const theirs = await next;
    expect(theirs.ownerId).toBe(owner);
    expectGrowing([hold.token, theirs.token]);
    expect(await redis.get(counterOf(name))).toBe(String(theirs.token));
    await theirs.release();
  });

  it.each([
    ['for longer', 40 * DAY_MS],
    ['for ever', Infinity],
  ])(
    'is remembered %s if its receiver wants that, whatever the previous holder wants',
    async (_howLong, tokenTtl) => {
      await using one = newClient({ lockWatchdogTimeout: 30_000 });
      await using two = newClient({ lockWatchdogTimeout: 30_000 });
      const hold = await one.getFencedLock(name, { fair: true, tokenTtl: 60_000 }).acquire();
      const next = two.getFencedLock(name, { fair: true, tokenTtl }).acquire();
      await eventually(async () => {
        const places = await redis.hvals(`holdfast_places:{${name}}`);
        expect(places).toEqual([expect.stringMatching(/^\d+ \d+ 2 1 /)]);
      });
      await hold.release();
      const forMs = await memoryMs(redis, name);
      if (tokenTtl === Infinity) expect(forMs).toBe(-1);
      else expect(forMs).toBeGreaterThan(tokenTtl - 10_000);
      const theirs = await next;
      expectGrowing([hold.token, theirs.token]);
      expect(await redis.get(counterOf(name))).toBe(String(theirs.token)); // it asked for no other token
      await theirs.release();
      await redis.del(counterOf(name));
    },
  );
});
