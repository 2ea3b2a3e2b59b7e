// Of all processes, one runs each tick; on a server in memory, whose time the tests move on.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import {
  cronerTick,
  onePerTick,
  runCoordinator,
  type TickOptions,
} from '../../../src/adapters/cron.js';
import {
  type Hold,
  Holdfast,
  type HoldfastOptions,
  LockLostError,
  UnavailableError,
} from '../../../src/index.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';
import { rejectionOf } from '../../support/clients.js';
import { gate } from '../../support/occupancy.js';

const MINUTE_MS = 60_000;

let redis: MemoryRedis;
const clients: Holdfast[] = [];

beforeEach(() => {
  redis = new MemoryRedis();
});

afterEach(async () => {
  await Promise.all(clients.splice(0).map((client) => client.close()));
});

/** A client of its own, as another process has it. */
function newClient(options: Partial<HoldfastOptions> = {}): Holdfast {
  const client = new Holdfast({ redis, ...options });
  client.on('error', () => undefined);
  clients.push(client);
  return client;
}

interface Process {
  readonly client: Holdfast;
  readonly onTick: (tick: string) => Promise<void>;
}

let runs: string[];
let skipped: string[];

beforeEach(() => {
  [runs, skipped] = [[], []];
});

/** A process that has the schedule; its scheduler gives the tick. */
function newProcess(
  who: string,
  options: Omit<TickOptions, 'tick' | 'onSkip'> = {},
  task: (hold: Hold) => unknown = () => undefined,
): Process {
  const client = newClient();
  const onTick = async (at: string): Promise<void> => {
    const tick = 'lockAtLeastFor' in options ? undefined : (): string => at;
    const onSkip = (): void => void skipped.push(`${who} ${at}`);
    await onePerTick(client, 'nightly', { ...options, tick, onSkip }, (hold) => {
      runs.push(`${who} ${at}`);
      return task(hold);
    })();
  };
  return { client, onTick };
}

describe('a tick that the scheduler names', () => {
  it('is run by the first process that comes, and by no other one', async () => {
    const [a, b] = [newProcess('a'), newProcess('b')];
    await a.onTick('3:00');
    await b.onTick('3:00');
    await b.onTick('4:00');
    expect(runs).toEqual(['a 3:00', 'b 4:00']);
    expect(skipped).toEqual(['b 3:00']);
  });

  it('is run once by processes that come at the same time', async () => {
    const all = ['a', 'b', 'c', 'd'].map((who) => newProcess(who));
    await Promise.all(all.map(({ onTick }) => onTick('3:00')));
    expect(runs).toHaveLength(1);
    expect(skipped).toHaveLength(3);
  });

  it('is not run again when the process that ran it has closed, for an hour', async () => {
    const [a, b] = [newProcess('a'), newProcess('b')];
    await a.onTick('3:00');
    await a.client.close();
    await redis.advance(59 * MINUTE_MS);
    await b.onTick('3:00');
    expect(runs).toEqual(['a 3:00']);
    await redis.advance(2 * MINUTE_MS);
    expect(redis.keys()).toEqual([]);
  });

  it('is not run again when its run has failed, which its scheduler is told', async () => {
    const broken = new Error('the database is away');
    const [a, b] = [newProcess('a', {}, () => Promise.reject(broken)), newProcess('b')];
    expect(await rejectionOf(a.onTick('3:00'))).toBe(broken);
    await b.onTick('3:00');
    expect(runs).toEqual(['a 3:00']);
  });

  it('is skipped while the run of another tick is under way', async () => {
    const { opened, open } = gate();
    const [a, b] = [newProcess('a', {}, () => opened), newProcess('b')];
    const running = a.onTick('3:00');
    await redis.advance(0);
    const late = b.onTick('3:01');
    await redis.advance(2_000);
    await late;
    open();
    await running;
    expect(runs).toEqual(['a 3:00']);
    expect(skipped).toEqual(['b 3:01']);
  });

  it('begins when the run of another tick has ended, within its wait', async () => {
    const { opened, open } = gate();
    const a = newProcess('a', {}, () => opened);
    const b = newProcess('b', { wait: 10 * MINUTE_MS });
    const running = a.onTick('3:00');
    await redis.advance(0);
    const late = b.onTick('3:01');
    await redis.advance(9 * MINUTE_MS);
    expect(runs).toEqual(['a 3:00']);
    open();
    await Promise.all([running, late]);
    expect(runs).toEqual(['a 3:00', 'b 3:01']);
  });

  it('begins when Redis is back, within its wait', async () => {
    const a = newProcess('a', { wait: 10 * MINUTE_MS });
    redis.down();
    const late = a.onTick('3:00');
    await redis.advance(5 * MINUTE_MS);
    expect(runs).toEqual([]);
    redis.up();
    await redis.advance(5_000);
    await late;
    expect(runs).toEqual(['a 3:00']);
  });

  it('is not run while Redis is down, which its scheduler is told', async () => {
    const a = newProcess('a');
    await a.onTick('2:00');
    redis.down();
    const failed = rejectionOf(a.onTick('3:00'));
    await redis.advance(20_000);
    redis.up();
    expect(await failed).toBeInstanceOf(UnavailableError);
    expect(runs).toEqual(['a 2:00']);
    expect(skipped).toEqual([]);
  });

  it('is not begun by a process that stood still until another one may have the lock', async () => {
    const client = newClient({ lockWatchdogTimeout: 200 });
    const task = vi.fn();
    const onTick = onePerTick(client, 'nightly', { tick: () => '3:00' }, task);
    client.once('acquired', () => {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300);
    });
    expect(await rejectionOf(onTick())).toBeInstanceOf(LockLostError);
    expect(task).not.toHaveBeenCalled();
  });

  it('is given to the task, and to those who skip it', async () => {
    const [ran, skips] = [vi.fn(), vi.fn()];
    const options = { tick: (job: { due: string }) => job.due, onSkip: skips };
    const onTick = onePerTick(newClient(), 'nightly', options, (_hold, tick) => {
      ran(tick);
    });
    await onTick({ due: '3:00' });
    await onTick({ due: '3:00' });
    expect(ran.mock.calls).toEqual([['3:00']]);
    expect(skips.mock.calls).toEqual([['3:00']]);
  });

  it('waits for what is called when it is skipped, and fails with it', async () => {
    const onSkip = (): Promise<void> => Promise.reject(new Error('not told'));
    const onTick = onePerTick(newClient(), 'n', { tick: () => '3:00', onSkip }, () => undefined);
    await onTick();
    await expect(onTick()).rejects.toThrow('not told');
  });

  it('may be a Date', async () => {
    const at = new Date('2026-01-01T03:00:00Z');
    const run = vi.fn();
    const onTick = (): Promise<void> => onePerTick(newClient(), 'n', { tick: () => at }, run)();
    await onTick();
    await onTick();
    expect(run).toHaveBeenCalledOnce();
    expect(redis.keys()).toEqual(['n:2026-01-01T03:00:00.000Z']);
  });

  it.each([undefined, '', 5, new Date(NaN)])('cannot be %s', async (tick) => {
    const onTick = onePerTick(newClient(), 'n', { tick: () => tick as string }, vi.fn());
    await expect(onTick()).rejects.toThrow(/^lock "n": the tick is .*: it must be a valid Date/);
  });
});

describe('a task that resolves to a generator object, whose work would begin after the release', () => {
  it.each([
    ['whose ticks the scheduler names', {}],
    ['whose ticks are taken over', { takeOver: true, wait: 10 * MINUTE_MS }],
    ['whose ticks are known by their time', { lockAtLeastFor: MINUTE_MS }],
  ])('%s: its scheduler is told, and the lock is free', async (_, options) => {
    const rows = (function* () {
      yield 1;
    })();
    const { client, onTick } = newProcess('a', options, () => rows);
    expect(await rejectionOf(onTick('3:00'))).toMatchObject({ code: 'INVALID_OPTION' });
    expect(client.held()).toEqual([]);
    if ('takeOver' in options) expect(await client.getLock('nightly:3:00').isLocked()).toBe(false);
  });
});

describe('a tick that is taken over', () => {
  const options = { takeOver: true, wait: 10 * MINUTE_MS };

  it('is run again by another process when its run has failed, and by no third one', async () => {
    const broken = new Error('the database is away');
    const a = newProcess('a', options, () => Promise.reject(broken));
    const [b, c] = [newProcess('b', options), newProcess('c', options)];
    expect(await rejectionOf(a.onTick('3:00'))).toBe(broken);
    await b.onTick('3:00');
    await c.onTick('3:00');
    expect(runs).toEqual(['a 3:00', 'b 3:00']);
    expect(skipped).toEqual(['c 3:00']);
  });

  it('is run again when the lease of its runner has ended, not earlier', async () => {
    const { opened, open } = gate();
    const a = newProcess('a', options, () => opened);
    const b = newProcess('b', options);
    const running = rejectionOf(a.onTick('3:00'));
    await redis.advance(0);
    const waiting = b.onTick('3:00');
    await redis.advance(5 * MINUTE_MS);
    expect(runs).toEqual(['a 3:00']);
    await a.client.getLock('nightly').forceUnlock(); // as if it had died
    await redis.advance(5_000);
    await waiting;
    open();
    expect(await running).toBeInstanceOf(LockLostError);
    expect(runs).toEqual(['a 3:00', 'b 3:00']);
  });

  it('is not run again by a process that waited until its run had succeeded', async () => {
    const { opened, open } = gate();
    const [a, b] = [newProcess('a', options, () => opened), newProcess('b', options)];
    const running = a.onTick('3:00');
    await redis.advance(0);
    const waiting = b.onTick('3:00');
    await redis.advance(MINUTE_MS);
    open();
    await Promise.all([running, waiting]);
    expect(runs).toEqual(['a 3:00']);
    expect(skipped).toEqual(['b 3:00']);
  });

  it('is not done when its run has lost the lock, though it succeeded', async () => {
    const a = newProcess('a', options, async (hold) => {
      await newClient().getLock('nightly').forceUnlock();
      await redis.advance(10_000);
      expect(hold.signal.aborted).toBe(true);
    });
    expect(await rejectionOf(a.onTick('3:00'))).toBeInstanceOf(LockLostError);
    await newProcess('b', options).onTick('3:00');
    expect(runs).toEqual(['a 3:00', 'b 3:00']);
  });
});

describe('a tick that is known by its time', () => {
  const options = { lockAtLeastFor: 30_000 };

  it('is run by one process; another whose clock is behind comes while it is still taken', async () => {
    const [a, b] = [newProcess('a', options), newProcess('b', options)];
    await a.onTick('3:00');
    await redis.advance(29_000);
    await b.onTick('3:00');
    await redis.advance(2_000);
    await b.onTick('3:01');
    expect(runs).toEqual(['a 3:00', 'b 3:01']);
    expect(skipped).toEqual(['b 3:00']);
  });

  it('stays taken when the process that ran it has closed', async () => {
    const [a, b] = [newProcess('a', options), newProcess('b', options)];
    await a.onTick('3:00');
    await a.client.close();
    await b.onTick('3:00');
    expect(runs).toEqual(['a 3:00']);
  });

  it('is skipped while the run before is under way, however long that takes', async () => {
    const { opened, open } = gate();
    const [a, b] = [newProcess('a', options, () => opened), newProcess('b', options)];
    const running = a.onTick('3:00');
    await redis.advance(5 * MINUTE_MS);
    await b.onTick('3:05');
    open();
    await running;
    expect(skipped).toEqual(['b 3:05']);
  });
});

describe('a run coordinator', () => {
  it('says yes to one of all processes for each key', async () => {
    const [a, b] = [runCoordinator(newClient()), runCoordinator(newClient())];
    expect(await a.shouldRun('nightly:3:00', 30_000)).toBe(true);
    expect(await b.shouldRun('nightly:3:00', 30_000)).toBe(false);
    expect(await a.shouldRun('nightly:3:00', 30_000)).toBe(false);
    expect(await b.shouldRun('nightly:4:00', 30_000)).toBe(true);
  });

  it.each([
    [30_000, 60 * MINUTE_MS],
    [90 * MINUTE_MS, 90 * MINUTE_MS],
  ])('asked for a lease of %s ms, lets a tick stay taken for %s ms', async (ttlMs, takenMs) => {
    const [a, b] = [runCoordinator(newClient()), runCoordinator(newClient())];
    await a.shouldRun('nightly:3:00', ttlMs);
    await redis.advance(takenMs - 1_000);
    expect(await b.shouldRun('nightly:3:00', ttlMs)).toBe(false);
    await redis.advance(2_000);
    expect(redis.keys()).toEqual([]);
  });

  it('rejects when Redis cannot be asked', async () => {
    const coordinator = runCoordinator(newClient());
    redis.down();
    const failed = rejectionOf(coordinator.shouldRun('nightly:3:00', 30_000));
    await redis.advance(20_000);
    redis.up();
    expect(await failed).toBeInstanceOf(UnavailableError);
  });
});

describe('bad input', () => {
  const tick = (): string => '3:00';

  it.each<[object, string]>([
    [{}, 'onePerTick() needs to know the tick, or else lockAtLeastFor'],
    [
      { lockAtleastFor: 5 },
      'the options of onePerTick() have no "lockAtleastFor"; known are: tick, lockAtLeastFor, wait, takeOver, onSkip',
    ],
    [{ tick: '3:00' }, "tick is '3:00': it must be a function"],
    [{ tick, onSkip: 5 }, 'onSkip is 5: it must be a function'],
    [{ tick, takeOver: 'yes' }, "takeOver is 'yes': it must be true or false"],
    [{ tick, takeOver: true }, 'takeOver needs a tick, and a wait longer than a run and a lease'],
    [
      { lockAtLeastFor: 5_000, wait: 1_000, takeOver: true },
      'takeOver needs a tick, and a wait longer than a run and a lease',
    ],
    [
      { lockAtLeastFor: 0 },
      'lockAtLeastFor is 0: it must be a whole number of milliseconds of at least 1',
    ],
    [
      { tick, lockAtLeastFor: 1.5 },
      'lockAtLeastFor is 1.5: it must be a whole number of milliseconds of at least 1',
    ],
    [
      { tick, wait: Infinity },
      'wait is Infinity: it must be at least 0 and less than lockAtLeastFor, 3600000',
    ],
    [{ tick, wait: -1 }, 'wait is -1: it must be at least 0 and less than lockAtLeastFor, 3600000'],
    [
      { lockAtLeastFor: 5_000, wait: 5_000 },
      'wait is 5000: it must be at least 0 and less than lockAtLeastFor, 5000',
    ],
  ])('%o is refused before anything is sent', (options, why) => {
    expect(() => onePerTick(newClient(), 'nightly', options, () => undefined)).toThrow(
      expect.objectContaining({ code: 'INVALID_OPTION', message: `lock "nightly": ${why}` }),
    );
  });

  it('refuses a name that no lock can have, and a task that is no function', () => {
    expect(() => onePerTick(newClient(), '', { tick }, () => undefined)).toThrow('lock name');
    expect(() => onePerTick(newClient(), 'nightly', { tick }, 'ls' as never)).toThrow(
      'lock "nightly": the task is \'ls\': it must be a function',
    );
  });

  it('has no tick for a croner job that was not triggered', () => {
    expect(() => cronerTick({ previousRuns: () => [] })).toThrow('has no tick up to now');
  });
});
