// A hold that passes to another process: `hold.export()` and `holdfast.adopt()`.
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest';
import {
  type Hold,
  type Holdfast,
  type Lock,
  LockExportedError,
  LockAbortedError,
  LockLostError,
  LockNotHeldError,
  LockUpgradeError,
  OptionError,
  type PermitHold,
} from '../../../src/index.js';
import { LockKeys } from '../../../src/redis/keys.js';
import { scripts } from '../../../src/redis/scripts.generated.js';
import {
  connectedClient,
  eventsOf,
  newClient,
  rejectionOf,
  sharedConnection,
  startSharedProxy,
} from '../../support/clients.js';
import { commandOf } from '../../support/lock-commands.js';
import { startRedis } from '../../support/redis-server.js';
import { eventually } from '../../support/time.js';
import { uniqueName } from '../../support/unique-name.js';

/** Within a test, no lease of this length ends. */
const WATCHDOG_MS = 60_000;

const redis = sharedConnection();
let client: Holdfast;
let other: Holdfast;
let name: string;

beforeEach(async () => {
  client = await connectedClient({ lockWatchdogTimeout: WATCHDOG_MS });
  other = await connectedClient({ lockWatchdogTimeout: WATCHDOG_MS });
  name = uniqueName();
});

afterEach(async () => {
  await Promise.all([client.close(), other.close()]);
});

function halvesOf(holdfast: Holdfast): { readLock: Lock; writeLock: Lock } {
  const lock = holdfast.getReadWriteLock(name);
  return { readLock: lock.readLock(), writeLock: lock.writeLock() };
}

/** Whether a third caller gets the lock now. */
type IsFree = () => Promise<boolean>;

interface Kind {
  readonly acquire: () => Promise<Hold | PermitHold>;
  readonly isFree: IsFree;
}

function isFreeBy(tryAcquire: () => Promise<Hold | PermitHold | undefined>): IsFree {
  return async () => {
    const hold = await tryAcquire();
    await hold?.release();
    return hold !== undefined;
  };
}

const KINDS: readonly [string, () => Kind][] = [
  [
    'lock',
    () => ({
      acquire: () => client.getLock(name).acquire(),
      isFree: isFreeBy(() => other.getLock(name).tryAcquire()),
    }),
  ],
  [
    'fair lock',
    () => ({
      acquire: () => client.getFairLock(name).acquire(),
      isFree: isFreeBy(() => other.getFairLock(name).tryAcquire()),
    }),
  ],
  [
    'fenced lock',
    () => ({
      acquire: () => client.getFencedLock(name).acquire(),
      isFree: isFreeBy(() => other.getFencedLock(name).tryAcquire()),
    }),
  ],
  [
    'fenced fair lock',
    () => ({
      acquire: () => client.getFencedLock(name, { fair: true }).acquire(),
      isFree: isFreeBy(() => other.getFencedLock(name).tryAcquire()),
    }),
  ],
  [
    'semaphore',
    () => ({
      acquire: () => client.getSemaphore(name, { permits: 3 }).acquire({ permits: 2 }),
      isFree: isFreeBy(() => other.getSemaphore(name, { permits: 3 }).tryAcquire({ permits: 2 })),
    }),
  ],
  [
    'read lock',
    () => ({
      acquire: () => client.getReadWriteLock(name).readLock().acquire(),
      isFree: isFreeBy(() => other.getReadWriteLock(name).writeLock().tryAcquire()),
    }),
  ],
  [
    'write lock',
    () => ({
      acquire: () => client.getReadWriteLock(name).writeLock().acquire(),
      isFree: isFreeBy(() => other.getReadWriteLock(name).readLock().tryAcquire()),
    }),
  ],
];

describe.each(KINDS)('a hold of a %s', (kindName, kindOf) => {
  it('passes to another client, and the lock is never free in between', async () => {
    const { acquire, isFree } = kindOf();
    const hold = await acquire();
    const text = await hold.export();
    expect(await isFree()).toBe(false);
    const adopted = await other.adopt(text);
    expect(adopted.lockName).toBe(name);
    expect(adopted.ownerId.startsWith(other.clientId)).toBe(true);
    expect(adopted.remaining()).toBeGreaterThan(0.9 * WATCHDOG_MS);
    await hold.release(); // does nothing
    expect(await isFree()).toBe(false);
    expect(adopted.signal.aborted).toBe(false);
    if (kindName.startsWith('fenced')) expect(adopted.token).toBeGreaterThan((hold as Hold).token!);
    await adopted.release();
    expect(await isFree()).toBe(true);
  });

  it('ends where it is exported: the signal says why, and nothing is lost', async () => {
    const { acquire } = kindOf();
    const losses = eventsOf(client, 'lost');
    const released = eventsOf(client, 'released');
    const hold = await acquire();
    const { signal } = hold;
    const text = await hold.export();
    expect(signal.aborted).toBe(true);
    expect(signal.reason).toBeInstanceOf(LockExportedError);
    expect(signal.reason).toMatchObject({ code: 'LOCK_EXPORTED', lockName: name });
    expect(hold.remaining()).toBe(0);
    expect(client.held()).toEqual([]);
    expect(released).toHaveLength(1);
    const refusal = await rejectionOf(hold.extend(1_000));
    expect(refusal).toBeInstanceOf(LockNotHeldError);
    expect((refusal as Error).message).toContain('cannot extend a hold that was exported');
    expect(await rejectionOf(hold.export())).toBeInstanceOf(LockNotHeldError);
    await (await other.adopt(text)).release();
    expect(losses).toEqual([]);
  });

  it('is adopted once: of several calls one succeeds, and the others get a LockLostError', async () => {
    const { acquire } = kindOf();
    const text = await (await acquire()).export();
    const outcomes = await Promise.allSettled(
      [client, other, other].map((each) => each.adopt(text)),
    );
    const holds = outcomes.filter(({ status }) => status === 'fulfilled');
    expect(holds).toHaveLength(1);
    for (const outcome of outcomes)
      if (outcome.status === 'rejected') expect(outcome.reason).toBeInstanceOf(LockLostError);
    await (holds[0] as PromiseFulfilledResult<Hold>).value.release();
    expect(await rejectionOf(other.adopt(text))).toBeInstanceOf(LockLostError);
  });

  it('that nobody adopts ends with its lease, also if its client closes', async () => {
    const { acquire, isFree } = kindOf();
    const brief = await connectedClient({ lockWatchdogTimeout: 2_000 });
    const before = client;
    client = brief;
    const hold = await acquire();
    client = before;
    const text = await hold.export();
    await brief.close();
    expect(await isFree()).toBe(false);
    await eventually(async () => {
      expect(await isFree()).toBe(true);
    });
    const error = await rejectionOf(other.adopt(text));
    expect(error).toBeInstanceOf(LockLostError);
    expect((error as Error).message).toContain(`lock "${name}" not adopted`);
  });
});

it('an adopted hold is renewed by its new client, and with a lease it is not', async () => {
  const [one, two] = [client.getLock(name), client.getLock(uniqueName())];
  const watched = await other.adopt(await (await one.acquire()).export());
  const fixed = await other.adopt(await (await two.acquire()).export(), {
    lease: 5_000,
    label: 'job',
  });
  expect(other.held()).toMatchObject([
    { lockName: one.name, watched: true },
    { lockName: two.name, watched: false, label: 'job' },
  ]);
  expect(fixed.remaining()).toBeLessThanOrEqual(5_000);
  expect(await redis.pttl(two.name)).toBeLessThanOrEqual(5_000);
  await Promise.all([watched.release(), fixed.release()]);
});

it('an adoption is told as such', async () => {
  const acquired = eventsOf(other, 'acquired');
  const hold = await other.adopt(await (await client.getLock(name).acquire()).export());
  expect(acquired).toMatchObject([{ lockName: name, via: 'adoption', ownerId: hold.ownerId }]);
  await hold.release();
});

it('withLock() around an export resolves, and its caller may go on with the lock elsewhere', async () => {
  const text = await client.getLock(name).withLock((hold) => hold.export({ lease: 30_000 }));
  const hold = await other.adopt(text);
  await hold.release();
});

it('an adopted hold is re-entered inside hold.run()', async () => {
  const hold = await other.adopt(await (await client.getLock(name).acquire()).export());
  await hold.run(() => other.getLock(name).withLock(() => undefined));
  await hold.release();
});

it('a waiter of the exporting client gets the lock when the adopted hold is released', async () => {
  const lock = client.getLock(name);
  const hold = await lock.acquire();
  const waiting = lock.acquire();
  const adopted = await other.adopt(await hold.export());
  await adopted.release();
  await (await waiting).release();
});

it('a kept lock is exported like any other', async () => {
  const lock = client.getLock(name, { keep: 5_000 });
  await eventually(async () => {
    await (await lock.acquire()).release();
    expect(client.stats().kept).toBe(1);
  });
  const adopted = await other.adopt(await (await lock.acquire()).export());
  expect(client.stats().kept).toBe(0);
  expect(await lock.tryAcquire()).toBeUndefined();
  await adopted.release();
});

it('lockAtLeastFor goes on with the hold', async () => {
  const calledAtMs = performance.now();
  const hold = await client.getLock(name).acquire({ lockAtLeastFor: 2_000 });
  const adopted = await other.adopt(await hold.export());
  await adopted.release();
  expect(await client.getLock(name).tryAcquire()).toBeUndefined();
  const next = await client.getLock(name).acquire();
  expect(performance.now() - calledAtMs).toBeGreaterThanOrEqual(1_990);
  await next.release();
});

it('lockAtLeastFor goes on though the adoption failed', async () => {
  const hold = await client.getLock(name).acquire({ lockAtLeastFor: WATCHDOG_MS });
  const text = await hold.export();
  const aborter = new AbortController();
  const adopting = other.adopt(text, { signal: aborter.signal });
  aborter.abort(); // the command is sent
  expect(await rejectionOf(adopting)).toBeInstanceOf(LockAbortedError);
  // By this answer the clean-up has run.
  expect(await rejectionOf(other.adopt(text))).toBeInstanceOf(LockLostError);
  expect(await client.getLock(name).tryAcquire()).toBeUndefined();
  await redis.del(name);
});

it('a write lock that was downgraded passes as a read lock', async () => {
  const { readLock, writeLock } = halvesOf(client);
  let reader: Hold | undefined;
  await writeLock.withLock(async () => {
    reader = await readLock.acquire();
  });
  const text = await reader!.export();
  const beside = await halvesOf(client).readLock.acquire();
  const adopted = await other.adopt(text);
  expect(other.held()).toMatchObject([{ kind: 'ReadLock' }]);
  const upgrade = adopted.run(() => halvesOf(other).writeLock.withLock(() => undefined));
  expect(await rejectionOf(upgrade)).toBeInstanceOf(LockUpgradeError);
  expect(beside.remaining()).toBeGreaterThan(0);
  await Promise.all([beside.release(), adopted.release()]);
});

it('a late copy of an adoption of permits does not shorten the lease', async () => {
  const hold = await client.getSemaphore(name, { permits: 1 }).acquire();
  const adopted = await other.adopt(await hold.export(), { lease: 1_000 });
  await adopted.extend(WATCHDOG_MS);
  const { lock, leases, forcedOwners } = new LockKeys(name);
  const args = [lock, leases, forcedOwners, hold.ownerId, adopted.ownerId, 1_000];
  expect(await redis.eval(scripts.weightedAdopt.source, 3, ...args)).toBe('done');
  const endsAtMs = Number(await redis.zscore(leases, adopted.ownerId));
  expect(endsAtMs - Date.now()).toBeGreaterThan(WATCHDOG_MS / 2);
  await adopted.release();
});

describe('export() is refused', () => {
  it('while the owner has other holds of the lock', async () => {
    const lock = client.getLock(name);
    await lock.withLock(async (outer) => {
      await lock.withLock(async (inner) => {
        for (const hold of [inner, outer]) {
          const error = await rejectionOf(hold.export());
          expect(error).toBeInstanceOf(OptionError);
          expect((error as Error).message).toContain('other holds of the lock');
          expect(hold.signal.aborted).toBe(false);
        }
      });
      await (await other.adopt(await outer.export())).release();
    });
  });

  it('for a MultiLock and a Redlock', async () => {
    const multi = await client.getMultiLock(client.getLock(name)).acquire();
    const red = await client
      .getRedLock(client.getLock(uniqueName()), { restartGuard: false })
      .acquire();
    for (const hold of [multi, red])
      expect(await rejectionOf(hold.export())).toBeInstanceOf(OptionError);
    await Promise.all([multi.release(), red.release()]);
    await redis.del(new LockKeys(red.lockName).longestLease);
  });

  it('with options that are not usable, and the hold goes on', async () => {
    const hold = await client.getLock(name).acquire();
    for (const lease of [0, 1.5, '5', Infinity])
      expect(await rejectionOf(hold.export({ lease: lease as number }))).toBeInstanceOf(
        OptionError,
      );
    expect(hold.remaining()).toBeGreaterThan(0);
    await hold.release();
  });

  it('with the loss, if the lease ended before Redis answered', async () => {
    await using proxy = await startSharedProxy();
    const far = await connectedClient({ redis: proxy.url, commandTimeout: 3_000 });
    const hold = await far.getLock(name).acquire({ lease: 500 });
    proxy.blackhole();
    expect(await rejectionOf(hold.export())).toBeInstanceOf(LockLostError);
    proxy.heal('drop');
    await far.close();
  });

  it('after a loss, with that loss', async () => {
    const hold = await client.getLock(name).acquire();
    await redis.del(name);
    expect(await rejectionOf(hold.export())).toBeInstanceOf(LockLostError);
  });
});

describe('adopt() is refused', () => {
  it.each([
    ['nothing', undefined],
    ['another text', 'orders:42'],
    ['a text that was cut off', 'holdfast-hold-1:eyJraW5kIjoi'],
    [
      'a text of another form',
      `holdfast-hold-1:${Buffer.from('{"kind":"MultiLock"}').toString('base64url')}`,
    ],
  ])('for %s', async (_, text) => {
    const error = await rejectionOf(other.adopt(text!));
    expect(error).toBeInstanceOf(OptionError);
    expect((error as Error).message).toContain('the hold to adopt is');
  });

  it('for a text that was changed, and the message shows no text that can be adopted', async () => {
    const text = await (await client.getLock(name).acquire()).export();
    const error = await rejectionOf(other.adopt(` ${text}`));
    expect(error).toBeInstanceOf(OptionError);
    expect((error as Error).message).toContain("' holdfast-hold-1:");
    expect((error as Error).message).not.toContain(text.slice(-20));
    await (await other.adopt(text)).release();
  });

  it('for a hold of another database of the same server', async () => {
    const text = await (await client.getLock(name).acquire()).export();
    const url = new URL(inject('redisUrl'));
    url.pathname = '/3';
    const elsewhere = await connectedClient({ redis: url.href });
    const error = await rejectionOf(elsewhere.adopt(text));
    expect(error).toBeInstanceOf(OptionError);
    expect((error as Error).message).toContain('/3, which does not have that hold');
    await elsewhere.close();
    await (await other.adopt(text)).release();
  });

  it('for a hold of another key prefix', async () => {
    const text = await (await client.getLock(name).acquire()).export();
    const prefixed = newClient({ keyPrefix: 'app:' });
    const error = await rejectionOf(prefixed.adopt(text));
    expect(error).toBeInstanceOf(OptionError);
    expect((error as Error).message).toContain('keyPrefix');
    await prefixed.close();
    await (await other.adopt(text)).release();
  });

  it('for a hold of another server, and the text stays good', async () => {
    await using server = await startRedis();
    const text = await (await client.getLock(name).acquire()).export();
    const elsewhere = await connectedClient({ redis: server.url });
    const error = await rejectionOf(elsewhere.adopt(text));
    expect(error).toBeInstanceOf(OptionError);
    expect((error as Error).message).toContain('it was exported at');
    await elsewhere.close();
    await (await other.adopt(text)).release();
  });

  it('with an option that is not known', async () => {
    const text = await (await client.getLock(name).acquire()).export();
    const options = { wait: 5 } as object;
    expect(await rejectionOf(other.adopt(text, options))).toBeInstanceOf(OptionError);
    await (await other.adopt(text)).release();
  });
});

it('the text contains no password', async () => {
  const text = await (await client.getLock(name).acquire()).export();
  const decoded = Buffer.from(text.split(':')[1]!, 'base64url').toString();
  expect(Object.keys(JSON.parse(decoded) as object).sort()).toEqual(
    ['kind', 'name', 'ownerId', 'restMs', 'place', 'home', 'keyPrefix'].sort(),
  );
  await (await other.adopt(text)).release();
});

it('an adoption whose answer is lost is asked again, and has the lock', async () => {
  await using proxy = await startSharedProxy();
  const far = await connectedClient({ redis: proxy.url, lockWatchdogTimeout: WATCHDOG_MS });
  const text = await (await client.getLock(name).acquire()).export();
  proxy.loseReplyTo(commandOf('releaseTo', name));
  const adopted = await far.adopt(text);
  expect(adopted.remaining()).toBeGreaterThan(0);
  expect(await redis.hkeys(name)).toEqual([adopted.ownerId]);
  await adopted.release();
  await far.close();
});

it('an export whose answer is lost is asked again, and ends the hold', async () => {
  await using proxy = await startSharedProxy();
  const far = await connectedClient({ redis: proxy.url, lockWatchdogTimeout: WATCHDOG_MS });
  const hold = await far.getLock(name).acquire();
  proxy.loseReplyTo(commandOf('reenter', name));
  const text = await hold.export();
  expect(hold.signal.aborted).toBe(true);
  await (await other.adopt(text)).release();
  await far.close();
});
