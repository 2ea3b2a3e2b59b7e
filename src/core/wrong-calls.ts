// Calls that plain JavaScript gets wrong: a method of another library, and a method that was detached from its object. In place of "is not a
// function" and "cannot read private member" they get a TypeError that names the right call. No type declares these methods, so TypeScript
// refuses the call as before; they are not enumerable, so JSON, spreads and `console.log` do not show them.
//
// `in` finds them: code that tells a lock from a hold by `'release' in it` must ask for `assertHeld` instead. What tells kinds of locks apart,
// such as `'getToken' in lock` or `'withPermits' in semaphore`, is not among them, nor what other code looks for before it calls it: `once()`
// of `node:events` and RxJS prefer `removeListener` and `addEventListener` to `on` and `off`.

const HOLD = 'of the hold that acquire() returned';

/** What is public of one kind of object. */
interface Kind {
  /** What its messages call it. */
  readonly what: string;
  /** A variable for it, in messages. */
  readonly variable: string;
  /** Its methods, which may be detached by mistake. */
  readonly methods: string;
  /** What to use in place of methods that others have: Redisson, redlock, redis-semaphore, async-mutex, and the other kinds here. */
  readonly instead: Readonly<Record<string, string>>;
}

/** One answer for several names. */
function all(names: string, right: string | ((name: string) => string)): Record<string, string> {
  const answer = (name: string): string => (typeof right === 'string' ? right : right(name));
  return Object.fromEntries(names.split(' ').map((name) => [name, answer(name)]));
}

const RUNNING = 'using runExclusive runWithLock disposer';
const ASKING = 'isAcquired isHeld isHeldByCurrentThread isHeldByThread';
const LOCK_METHODS =
  'lock tryLock unlock acquire tryAcquire withLock isLocked isHeldByCurrentOwner getHoldCount remainTimeToLive forceUnlock';

export const KINDS: Readonly<
  Record<'lock' | 'hold' | 'permits' | 'semaphore' | 'readWriteLock' | 'client', Kind>
> = {
  lock: {
    what: 'lock',
    variable: 'lock',
    methods: `${LOCK_METHODS} toJSON lockAndGetToken tryLockAndGetToken getToken getQueueLength getWaiters`,
    instead: {
      ...all(RUNNING, 'withLock(fn)'),
      ...all(ASKING, 'isHeldByCurrentOwner()'),
      ...all('lockAsync tryLockAsync unlockAsync forceUnlockAsync isLockedAsync', (name) =>
        name.replace('Async', '()'),
      ),
      ...all('extend renew', `extend() ${HOLD}; without a lease, the watchdog renews it`),
      ...all('ttl getTTL', 'remainTimeToLive()'),
      ...all('lockInterruptibly cancel', 'the option signal: lock({ signal })'),
      release: `unlock() after lock() or tryLock(), release() ${HOLD}`,
      waitForUnlock: `acquire(), and release() ${HOLD}`,
      getName: 'its property name',
      export: `export() ${HOLD}`,
    },
  },
  hold: {
    what: 'the hold of lock',
    variable: 'hold',
    methods: 'remaining assertHeld extend export release run toJSON',
    instead: {
      ...all('unlock forceUnlock releaseLock', 'release()'),
      ...all('renew prolong', 'extend(lease)'),
      ...all(`withLock ${RUNNING}`, 'run(fn)'),
      ...all('isLocked isValid isReleased isHeldByCurrentOwner', 'remaining(), or assertHeld()'),
      ...all(ASKING, 'remaining(), or assertHeld()'),
      ...all('remainTimeToLive ttl getTTL', 'remaining()'),
    },
  },
  permits: {
    what: 'the hold of semaphore',
    variable: 'hold',
    methods: 'remaining assertHeld extend export release toJSON',
    instead: {
      unlock: 'release()',
      ...all('renew prolong updateLeaseTime', 'extend(lease)'),
      ...all(`withLock ${RUNNING}`, 'withPermits(fn) of the semaphore'),
      ...all(`isValid isReleased ${ASKING}`, 'remaining(), or assertHeld()'),
      ...all('remainTimeToLive ttl getTTL', 'remaining()'),
    },
  },
  semaphore: {
    what: 'semaphore',
    variable: 'semaphore',
    methods: 'acquire tryAcquire withPermits setPermits availablePermits getWaiters toJSON',
    instead: {
      ...all('withLock using use runExclusive', 'withPermits(fn)'),
      ...all('lock', `acquire(), and release() ${HOLD}`),
      ...all('tryLock', 'tryAcquire(), and release() of the hold that it returns'),
      ...all('unlock release forceUnlock', `release() ${HOLD}`),
      ...all('extend renew updateLeaseTime', `extend() ${HOLD}`),
      ...all('isLocked getValue getPermits drainPermits', 'availablePermits()'),
      ...all('setValue trySetPermits addPermits reducePermits', 'setPermits(permits)'),
      ...all(ASKING, `remaining() ${HOLD}`),
      getQueueLength: 'getWaiters()',
      getName: 'its property name',
      export: `export() ${HOLD}`,
    },
  },
  readWriteLock: {
    what: 'read-write lock',
    variable: 'readWriteLock',
    methods: 'readLock writeLock getWaiters toJSON',
    instead: {
      ...all(
        LOCK_METHODS,
        (name) => `readLock().${name}() to read, writeLock().${name}() to write`,
      ),
      ...all(RUNNING, 'readLock().withLock(fn) to read, writeLock().withLock(fn) to write'),
      release: 'unlock() of the half that was locked, or release() of its hold',
      getReadLock: 'readLock()',
      getWriteLock: 'writeLock()',
      getQueueLength: 'getWaiters()',
      getName: 'its property name',
    },
  },
  client: {
    what: 'Holdfast',
    variable: 'holdfast',
    methods:
      'getLock getFairLock getFencedLock getReadWriteLock getSemaphore getMultiLock getRedLock adopt ping run detach on once off close held stats inspect list toJSON',
    instead: {
      ...all(`${LOCK_METHODS} lockAndGetToken getToken`, (name) => `getLock(name).${name}()`),
      ...all(`request ${RUNNING}`, 'getLock(name).withLock(fn)'),
      acquire: 'getLock(name).acquire(); for several names, getMultiLock(…).acquire()',
      using: 'getLock(name).withLock(fn); for several names, getMultiLock(…).withLock(fn)',
      ...all('release extend export', (name) => `${name}() of the hold that acquire() returned`),
      ...all('withPermits availablePermits setPermits', (name) => `getSemaphore(…).${name}()`),
      ...all('quit disconnect shutdown', 'close()'),
      ...all('getSpinLock getMutex createLock createMutex mutex', 'getLock(name)'),
      ...all('getPermitExpirableSemaphore semaphore', 'getSemaphore(name, { permits })'),
      readLock: 'getReadWriteLock(name).readLock()',
      writeLock: 'getReadWriteLock(name).writeLock()',
      connect: 'ping() to know that Redis answers: it connects by itself',
    },
  },
};

interface Named {
  readonly name?: unknown;
  readonly lockName?: unknown;
}

/** The methods that return a promise. Other names throw, as calls of what does not exist do. */
const PROMISES = new Set(
  `${LOCK_METHODS} lockAndGetToken tryLockAndGetToken getToken getQueueLength getWaiters extend export release run withPermits setPermits
  availablePermits adopt ping close inspect`.split(/\s+/),
);

/** A method that returns a promise rejects, so that `.catch()` of a call that is not awaited has it. */
function failed(name: string, message: string): Promise<never> {
  const error = new TypeError(message);
  if (PROMISES.has(name)) return Promise.reject(error);
  throw error;
}

interface Class {
  readonly name: string;
  readonly prototype: object;
}

/** Gives these errors to the objects of a class. Called once for each class that has methods of this kind. */
export function explainWrongCalls(Class: Class, kind: Kind): void {
  const { prototype } = Class;
  const own = Object.getOwnPropertyDescriptors(prototype) as Record<string, PropertyDescriptor>;
  for (const name of kind.methods.split(' ')) {
    const method = own[name]?.value as ((...args: unknown[]) => unknown) | undefined;
    if (!method) continue;
    const value = function (this: unknown, ...args: unknown[]): unknown {
      if (this === undefined || !Object.prototype.isPrototypeOf.call(prototype, this as object))
        return failed(
          name,
          `${name}() was called without its ${kind.variable}: write ${kind.variable}.${name}(…), or () => ${kind.variable}.${name}(…) where a function is passed on`,
        );
      return method.apply(this, args);
    };
    Object.defineProperties(value, { name: { value: name }, length: { value: method.length } });
    Object.defineProperty(prototype, name, { ...own[name], value });
  }
  for (const [name, right] of Object.entries(kind.instead)) {
    if (name in prototype) continue;
    const value = function (this: Named | undefined): unknown {
      const about = this?.name ?? this?.lockName;
      const named = typeof about === 'string' ? `${kind.what} "${about}"` : kind.what;
      return failed(name, `${named} has no ${name}(): use ${right}`);
    };
    Object.defineProperty(prototype, name, { value, configurable: true, writable: true });
  }
}
