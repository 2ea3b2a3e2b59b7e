// Lock ids: no name makes a lock of one kind look like another lock to its own client.
import * as fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Cleanup } from '../../../src/core/cleanup.js';
import { idOf } from '../../../src/core/protocol.js';
import { Holdfast, type Hold, type PermitHold } from '../../../src/index.js';
import { SingleLock } from '../../../src/locks/single-lock.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';
import { rejectionOf } from '../../support/clients.js';

let redis: MemoryRedis;
let client: Holdfast;
let other: Holdfast;
let third: Holdfast;

beforeEach(() => {
  redis = new MemoryRedis();
  client = new Holdfast({ redis });
  other = new Holdfast({ redis });
  third = new Holdfast({ redis });
});

afterEach(async () => {
  await Promise.all([client.close(), other.close(), third.close()]);
});

/** What a name may be made of: what ids are made of, too. */
const PIECES = [
  ...['', ' ', ':', '{', '}', '[', '"', '\\', ',', ', ', ')', 'x', 'é'],
  ...['weighted', 'lock', 'permits', 'read-write', 'semaphore', 'plain', 'shared', 'red', 'quorum'],
  ...['multi(', 'hold', 'place', 'Lock', 'ReadLock', 'WriteLock', 'Semaphore'],
];

const anyPieces = fc.array(fc.constantFrom(...PIECES), { maxLength: 4 });

const anyPiece = fc.constantFrom(...PIECES);

/** Two names, of which one is often the other one with something around it. */
const twoNames = fc
  .tuple(anyPiece, anyPieces, fc.option(anyPiece, { nil: '' }), fc.constantFrom(' ', ''))
  .map(([before, name, behind, space]) => {
    const inner = `n${name.join('')}`;
    const all = [before, inner, behind].filter((piece) => piece !== '');
    return [inner, all.join(space)] as const;
  });

/** Kinds with one key and one set of owners are one lock. */
const KINDS = {
  lock: { is: 'plain', of: (name: string) => client.getLock(name) },
  'fair lock': { is: 'plain', of: (name: string) => client.getFairLock(name) },
  'fenced lock': { is: 'plain', of: (name: string) => client.getFencedLock(name) },
  'read lock': { is: 'read-write', of: (name: string) => client.getReadWriteLock(name).readLock() },
  'write lock': {
    is: 'read-write',
    of: (name: string) => client.getReadWriteLock(name).writeLock(),
  },
  semaphore: { is: 'semaphore', of: (name: string) => client.getSemaphore(name, { permits: 2 }) },
} as const;

type Kind = keyof typeof KINDS;

const anyKind = fc.constantFrom(...(Object.keys(KINDS) as Kind[]));

async function inside(kind: Kind, name: string, fn: (hold: PermitHold | Hold) => Promise<void>) {
  const lock = KINDS[kind].of(name);
  if ('withPermits' in lock) await lock.withPermits({ wait: 0 }, fn);
  else await lock.withLock({ wait: 0 }, fn);
}

describe('inside a hold', () => {
  it('only a call of the same lock re-enters it, whatever the names', async () => {
    const pairs = fc.tuple(anyKind, anyKind, twoNames, fc.boolean());
    await fc.assert(
      fc.asyncProperty(pairs, async ([kind, innerKind, [first, second], isSwapped]) => {
        const [name, innerName] = isSwapped ? [second, first] : [first, second];
        const isSame = KINDS[kind].is === KINDS[innerKind].is && name === innerName;
        if (isSame) return;
        await inside(kind, name, async (outer) => {
          let inner: string | undefined;
          const call = inside(innerKind, innerName, ({ ownerId }) => {
            inner = ownerId;
            return Promise.resolve();
          });
          // One name of two kinds is one key on the server: refused.
          if (name === innerName) {
            const code = expect.stringMatching(/KEY_CONFLICT|INVALID_OPTION/) as string;
            expect(await rejectionOf(call)).toMatchObject({ code });
          } else await call;
          expect(inner).not.toBe(outer.ownerId);
        });
      }),
      { numRuns: 100 },
    );
  }, 30_000);

  it('a lock whose name has the words of a write lock is acquired on the server', async () => {
    const { writeLock } = halves('orders');
    const lock = client.getLock('weighted orders');
    await writeLock.withLock(() =>
      lock.withLock(async () => {
        expect(await other.getLock('weighted orders').tryLock()).toBe(false);
      }),
    );
  });

  it('of a semaphore, a read lock of its name is a key conflict', async () => {
    await client.getSemaphore('s', { permits: 3 }).withPermits(async () => {
      const { readLock } = halves('s');
      expect(await rejectionOf(readLock.tryAcquire())).toMatchObject({ code: 'KEY_CONFLICT' });
    });
  });

  it('the read half of a write lock re-enters it', async () => {
    const { readLock, writeLock } = halves('orders');
    await writeLock.withLock((outer) =>
      readLock.withLock(({ ownerId }) => {
        expect(ownerId).toBe(outer.ownerId);
      }),
    );
  });
});

describe('outside any run', () => {
  it('an unlock() of a lock whose name has the words of a write lock does not free that one', async () => {
    const { writeLock } = halves('orders');
    await writeLock.lock();
    const error = await rejectionOf(client.getLock('weighted orders').unlock());
    expect(error).toMatchObject({ code: 'LOCK_NOT_HELD' });
    expect(await writeLock.isLocked()).toBe(true);
    await writeLock.unlock();
  });
});

describe('ids', () => {
  it('of a lock belong to one kind and name', () => {
    fc.assert(
      fc.property(anyKind, anyKind, twoNames, (kind, otherKind, [name, otherName]) => {
        const [one, another] = [KINDS[kind].of(name), KINDS[otherKind].of(otherName)];
        if (!(one instanceof SingleLock && another instanceof SingleLock)) return;
        const isSame = KINDS[kind].is === KINDS[otherKind].is && name === otherName;
        expect(one.id === another.id).toBe(isSame);
      }),
      { numRuns: 2_000 },
    );
  });

  it('of a Redlock belong to its members', () => {
    fc.assert(
      fc.property(twoNames, ([a, b]) => {
        const redIdOf = (name: string, ...clients: Holdfast[]): string => {
          const red = client.getRedLock(...clients.map((each) => each.getLock(name)));
          return (red as unknown as SingleLock).id;
        };
        const [one, another] = [redIdOf(a, client, other), redIdOf(b, client, other)];
        expect(one === another).toBe(a === b);
        expect(redIdOf(a, other, client)).toBe(one);
        expect(redIdOf(b, client, other, third)).not.toBe(one);
      }),
      { numRuns: 50 },
    );
  });

  it('of parts belong to these parts', () => {
    const words = fc.array(
      fc.oneof(
        fc.string(),
        anyPieces.map((all) => all.join(' ')),
      ),
    );
    fc.assert(
      fc.property(words, words, (some, others) => {
        const areSame =
          some.length === others.length && some.every((each, at) => each === others[at]);
        expect(idOf(...some) === idOf(...others)).toBe(areSame);
      }),
    );
    expect(idOf('a b', 'c')).not.toBe(idOf('a', 'b c'));
  });
});

describe('two MultiLocks of one name', () => {
  it('are not one: a lock() of each at once is no overlap', async () => {
    const warnings: string[] = [];
    client.on('warning', ({ message }) => warnings.push(message));
    const multiOf = (...names: string[]) =>
      client.getMultiLock(...names.map((name) => client.getLock(name)));
    const [one, another] = [multiOf('a', 'b, c'), multiOf('a, b', 'c')];
    expect(one.name).toBe(another.name);
    await client.run(async () => {
      await Promise.all([one.lock(), another.lock()]);
      await Promise.all([one.unlock(), another.unlock()]);
    });
    expect(warnings).toEqual([]);
  });
});

describe('the clean-up', () => {
  it('remembers each owner of each lock', async () => {
    const removed: string[] = [];
    let isAnswering = false;
    const cleanup = new Cleanup(() => false);
    const lock = (id: string) => ({
      id,
      release: (ownerId: string) => {
        if (!isAnswering) return new Promise<boolean>(() => undefined);
        removed.push(`${ownerId} of ${id}`);
        return Promise.resolve(true);
      },
    });
    cleanup.remove(lock('lock'), 'owner of a:1');
    cleanup.remove(lock('a:1 lock'), 'owner of');
    isAnswering = true;
    cleanup.tryAgain();
    await Promise.resolve();
    expect(removed).toHaveLength(2);
  });
});

function halves(name: string) {
  const lock = client.getReadWriteLock(name);
  return { readLock: lock.readLock(), writeLock: lock.writeLock() };
}
