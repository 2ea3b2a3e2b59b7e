// Acquires and releases that are gathered: which commands they become, in which order, and what each caller is answered.
import { nextTick } from 'node:process';
import { inOwnContext } from '../../../src/runtime/node.js';
import { AsyncLocalStorage } from 'node:async_hooks';
import { beforeEach, describe, expect, it } from 'vitest';
import { type Carrier, GatheredCalls } from '../../../src/locks/gather.js';
import {
  failureKind,
  LostError,
  RefusedError,
  replyError,
  UnsentError,
  UnwantedError,
} from '../../../src/redis/failure.js';
import { hashTag, LockKeys } from '../../../src/redis/keys.js';
import type { Argument, Sender } from '../../../src/redis/port.js';
import type { Script } from '../../../src/redis/scripts.generated.js';
import type { TimeLimit } from '../../../src/runtime/clock.js';

const LEASE_MS = 30_000;

interface Sent {
  /** The script and its arguments, with the locks in front. */
  readonly command: string;
  readonly limit: TimeLimit | undefined;
  readonly sender: Sender | undefined;
  answer(reply: unknown): Promise<void>;
  fail(error: Error): Promise<void>;
}

/** A connection on which nothing is answered but by the test. */
class FakeCarrier implements Carrier {
  readonly sent: Sent[] = [];
  isSlotted = false;
  isReady = true;
  unanswered = 1;
  onRun: () => void = () => undefined;
  #postponed: (() => void) | undefined;

  get isBusy(): boolean {
    return this.unanswered > 0 || this.#postponed !== undefined;
  }

  get commands(): string[] {
    return this.sent.map(({ command }) => command);
  }

  postpone(send: () => void): void {
    this.#postponed = send;
    nextTick(() => {
      this.sendNow();
    });
  }

  sendNow(): void {
    const send = this.#postponed;
    this.#postponed = undefined;
    if (send) inOwnContext(send);
  }

  senderFor(key: string): Sender | undefined {
    return key.includes('homeless') ? undefined : ({ home: hashTag(key) } as unknown as Sender);
  }

  run<T>(
    { name }: Script,
    keys: readonly string[],
    args: readonly Argument[],
    read: (reply: unknown) => T,
    limit?: TimeLimit,
    sender?: Sender,
  ): Promise<T> {
    this.sendNow();
    this.onRun();
    if (!this.isReady) return Promise.reject(new UnsentError('not connected'));
    return new Promise((resolve, reject) => {
      this.sent.push({
        command: [name, keys.join(','), ...args].join(' '),
        limit,
        sender,
        answer(reply) {
          resolve(read(reply));
          return turn();
        },
        fail(error) {
          reject(error);
          return turn();
        },
      });
    });
  }
}

/** The end of this turn of the event loop. */
function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

let carrier: FakeCarrier;
let calls: GatheredCalls;
/** What became of each call, by its owner. */
let outcomes: Record<string, unknown>;

beforeEach(() => {
  carrier = new FakeCarrier();
  calls = new GatheredCalls(carrier);
  outcomes = {};
});

function acquire(lock: string, owner: string, leaseMs = LEASE_MS, limit?: TimeLimit): void {
  const read = (reply: unknown): unknown => reply;
  note(owner, calls.acquire(new LockKeys(lock), owner, leaseMs, read, limit));
}

function release(lock: string, owner: string, publish: 'PUBLISH' | '' = 'PUBLISH'): void {
  note(
    owner,
    calls.release(new LockKeys(lock), owner, publish, (reply) => `released: ${String(reply)}`),
  );
}

function note(owner: string, answer: Promise<unknown>): void {
  answer.then(
    (reply) => (outcomes[owner] = reply),
    (error: unknown) => (outcomes[owner] = error),
  );
}

describe('on an idle connection', () => {
  it('a call is sent at once, by the script for one lock', () => {
    carrier.unanswered = 0;
    acquire('a', 'me:1');
    expect(carrier.commands).toEqual([`acquire a me:1 ${LEASE_MS}`]);
    release('b', 'me:2');
    expect(carrier.commands.slice(1)).toEqual([
      'release b me:2 redisson_lock__channel:{b} PUBLISH',
    ]);
  });

  it('a call does not overtake one that was made while something was under way', async () => {
    release('a', 'me:1');
    carrier.unanswered = 0;
    acquire('a', 'me:2');
    expect(carrier.commands).toEqual([]);
    await turn();
    expect(carrier.commands).toEqual([`gather a,a ra ${LEASE_MS} PUBLISH me:1 me:2`]);
  });
});

describe('while something is under way', () => {
  it('a call that is alone in its turn is sent at its end, by the script for one lock', async () => {
    acquire('a', 'me:1');
    expect(carrier.commands).toEqual([]);
    await turn();
    expect(carrier.commands).toEqual([`acquire a me:1 ${LEASE_MS}`]);
    release('a', 'me:1');
    await turn();
    expect(carrier.commands).toHaveLength(2);
    expect(carrier.commands[1]).toMatch(/^release a/);
  });

  it('the calls of one turn go together, each with its answer', async () => {
    acquire('a', 'me:1');
    await Promise.resolve();
    release('b', 'me:2');
    acquire('c', 'me:3', 5_000);
    release('d', 'me:4', '');
    acquire('e', 'me:5');
    await turn();
    expect(carrier.commands).toEqual([
      `gather a,b,c,d,e arowa ${LEASE_MS} PUBLISH me:1 me:2 me:3 5000 me:4 me:5`,
    ]);
    await carrier.sent[0]!.answer([1, 3, ['other:1', 90], 0, 1]);
    expect(outcomes).toEqual({
      'me:1': 1,
      'me:2': 'released: 3',
      'me:3': ['other:1', 90],
      'me:4': 'released: 0',
      'me:5': 1,
    });
    expect(carrier.sent).toHaveLength(1);
  });

  it('64 locks are the most for one call', async () => {
    for (let i = 0; i < 130; i++) acquire(`lock${i}`, `me:${i}`);
    await turn();
    const lockCounts = carrier.commands.map((command) => command.split(' ')[1]!.split(',').length);
    expect(lockCounts).toEqual([64, 64, 2]);
    for (const [index, one] of carrier.sent.entries())
      await one.answer(Array.from({ length: lockCounts[index]! }, (_, i) => `${index}.${i}`));
    expect(outcomes).toMatchObject({ 'me:0': '0.0', 'me:64': '1.0', 'me:129': '2.1' });
  });

  it('half of as many as there were of late are sent before the end of the turn', async () => {
    const lockCounts = (): number[] =>
      carrier.commands.map((command) => command.split(' ')[1]!.split(',').length);
    let made = 0;
    const turnOf = async (count: number): Promise<number[]> => {
      const before = carrier.sent.length;
      for (let i = 0; i < count; i++) acquire(`lock${++made}`, `me:${made}`);
      await turn();
      const sent = lockCounts().slice(before);
      for (const one of carrier.sent.slice(before)) await one.answer(Array(64).fill(1));
      return sent;
    };
    expect(await turnOf(16)).toEqual([16]);
    for (let i = 0; i < 30; i++) await turnOf(16);
    expect(await turnOf(16)).toEqual([8, 8]);
    expect(await turnOf(200)).toEqual([8, 8, 8, 12, 18, 27, 41, 61, 17]);
    expect(await turnOf(200)).toEqual([64, 64, 64, 8]);
  });

  it('what is sent before the end of the turn is sent in nobody’s context', () => {
    const storage = new AsyncLocalStorage<string>();
    const contexts: unknown[] = [];
    carrier.onRun = () => contexts.push(storage.getStore());
    storage.run('a caller', () => {
      for (let i = 0; i < 64; i++) acquire(`lock${i}`, `me:${i}`);
    });
    expect(contexts).toEqual([undefined]);
  });

  it('65 are a call for 64 and one for the last', async () => {
    for (let i = 0; i < 65; i++) acquire(`lock${i}`, `me:${i}`);
    await turn();
    expect(carrier.commands.map((command) => command.split(' ')[0])).toEqual(['gather', 'acquire']);
  });

  it('calls for the same lock keep their order, also over several commands', async () => {
    for (let i = 0; i < 63; i++) acquire(`lock${i}`, `me:${i}`);
    release('a', 'x:1');
    acquire('a', 'x:2');
    acquire('b', 'x:3');
    await turn();
    expect(carrier.commands[0]).toMatch(/,a a+r .* x:1$/);
    expect(carrier.commands[1]).toBe(`gather a,b aa ${LEASE_MS}  x:2 x:3`);
  });

  it('what is sent in between by others comes behind what was gathered before it', async () => {
    release('a', 'me:1');
    void carrier.run({ name: 'reenter' } as Script, ['a'], [], () => undefined);
    acquire('a', 'me:2');
    await turn();
    expect(carrier.commands.map((command) => command.split(' ')[0])).toEqual([
      'release',
      'reenter',
      'acquire',
    ]);
  });

  it('an acquire that nobody waits for any more is not sent, and a release is', async () => {
    let leftMs = 100;
    const limit = {
      get leftMs() {
        return leftMs;
      },
    };
    acquire('a', 'me:1', LEASE_MS, limit);
    release('b', 'me:2');
    acquire('c', 'me:3');
    leftMs = 0;
    await turn();
    expect(carrier.commands).toEqual([`gather b,c ra ${LEASE_MS} PUBLISH me:2 me:3`]);
    expect(failureKind(outcomes['me:1'])).toBe('unsent');
  });

  it('in a cluster only keys with the same hash tag go together, to the node that has them', async () => {
    carrier.isSlotted = true;
    acquire('{x}:a', 'me:1');
    acquire('y', 'me:2');
    release('{x}:b', 'me:3');
    acquire('{z}:c', 'me:4');
    acquire('x', 'me:5');
    acquire('{homeless}:d', 'me:6');
    acquire('{homeless}:e', 'me:7');
    await turn();
    expect(carrier.commands).toEqual([
      `gather {x}:a,{x}:b,x ara ${LEASE_MS} PUBLISH me:1 me:3 me:5`,
      `acquire y me:2 ${LEASE_MS}`,
      `acquire {z}:c me:4 ${LEASE_MS}`,
      `acquire {homeless}:d me:6 ${LEASE_MS}`,
      `acquire {homeless}:e me:7 ${LEASE_MS}`,
    ]);
    expect(carrier.sent[0]!.sender).toEqual({ home: 'x' });
    expect(carrier.sent.slice(1).map(({ sender }) => sender)).toEqual(Array(4).fill(undefined));
  });
});

describe('a call for several', () => {
  const THREE = `gather a,b,c ara ${LEASE_MS} PUBLISH me:1 me:2 me:3`;
  const ALONE = [
    `acquire a me:1 ${LEASE_MS}`,
    'release b me:2 redisson_lock__channel:{b} PUBLISH',
    `acquire c me:3 ${LEASE_MS}`,
  ];
  let limitMs: number;

  beforeEach(async () => {
    limitMs = 1_000;
    const limit = {
      get leftMs() {
        return limitMs;
      },
    };
    acquire('a', 'me:1', LEASE_MS, limit);
    release('b', 'me:2');
    acquire('c', 'me:3');
    await turn();
    expect(carrier.commands).toEqual([THREE]);
  });

  it('that left one of them undone has that one sent by itself, and told why', async () => {
    await carrier.sent[0]!.answer([null, 2, 1]);
    expect(carrier.commands.slice(1)).toEqual([ALONE[0]]);
    expect(outcomes).toEqual({ 'me:2': 'released: 2', 'me:3': 1 });
    const error = replyError('WRONGTYPE Operation against a key');
    await carrier.sent[1]!.fail(error);
    expect(outcomes['me:1']).toBe(error);
  });

  it.each([
    ...['NOPERM no key', 'TRYAGAIN', 'MOVED 1 host:1', 'LOADING', 'OOM', 'READONLY'].map((words) =>
      replyError(words),
    ),
    new RefusedError('one node of a cluster'),
  ])(
    'that is answered by an error (%s) has done nothing: each is sent by itself',
    async (refusal) => {
      await carrier.sent[0]!.fail(refusal);
      expect(carrier.commands.slice(1)).toEqual(ALONE);
      expect(outcomes).toEqual({});
      const error = replyError('NOPERM');
      await carrier.sent[1]!.answer(1);
      await carrier.sent[2]!.fail(error);
      await carrier.sent[3]!.answer(['other:1', 5]);
      expect(outcomes).toEqual({ 'me:1': 1, 'me:2': error, 'me:3': ['other:1', 5] });
    },
  );

  it('that is lost may have run: all of them stay unanswered, and are not sent again', async () => {
    await carrier.sent[0]!.fail(new LostError());
    expect(Object.values(outcomes).map(failureKind)).toEqual(Array(3).fill('unanswered'));
    expect(carrier.sent).toHaveLength(1);
  });

  it('is not sent in full once one of them has given up; the others are sent by themselves', async () => {
    expect(carrier.sent[0]!.limit!.leftMs).toBe(1_000);
    limitMs = 0;
    expect(carrier.sent[0]!.limit!.leftMs).toBe(0);
    await carrier.sent[0]!.fail(new UnwantedError());
    expect(failureKind(outcomes['me:1'])).toBe('unsent');
    expect(carrier.commands.slice(1)).toEqual(ALONE.slice(1));
  });

  it('whose connection is gone by the end of the turn is not sent, and each hears so', async () => {
    acquire('d', 'me:4');
    acquire('e', 'me:5');
    carrier.isReady = false;
    await turn();
    expect(carrier.commands).toEqual([THREE]);
    expect([outcomes['me:4'], outcomes['me:5']].map(failureKind)).toEqual(['unsent', 'unsent']);
  });

  it('whose answer to one cannot be read answers the others', async () => {
    const failing = calls.acquire(new LockKeys('d'), 'me:4', LEASE_MS, () => {
      throw new Error('a defect');
    });
    const failed = expect(failing).rejects.toThrow('a defect');
    acquire('e', 'me:5');
    await turn();
    await carrier.sent[1]!.answer([1, 1]);
    await failed;
    expect(outcomes['me:5']).toBe(1);
  });
});
