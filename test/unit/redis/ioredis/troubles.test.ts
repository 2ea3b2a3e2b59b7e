// What ioredis says of attempts to connect: the reasons that are told are those of the attempt that failed.
import { EventEmitter } from 'node:events';
import { beforeEach, describe, expect, it } from 'vitest';
import { failureKind, replyError } from '../../../../src/redis/failure.js';
import type { Ioredis } from '../../../../src/redis/ioredis/source.js';
import { onTrouble } from '../../../../src/redis/ioredis/troubles.js';

const DENIAL = replyError('NOPERM this user has no permissions to run the "cluster|slots" command');
const UNREACHABLE = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:7000'), {
  code: 'ECONNREFUSED',
});

let told: Error[];

beforeEach(() => {
  told = [];
});

function listenedTo(client: object): EventEmitter {
  const emitter = Object.assign(new EventEmitter(), client);
  onTrouble(emitter as unknown as Ioredis, (error) => told.push(error));
  return emitter;
}

describe('a cluster', () => {
  let cluster: EventEmitter;

  beforeEach(() => {
    cluster = listenedTo({ isCluster: true });
    cluster.emit('connecting');
  });

  function attemptFails(last: Error): void {
    cluster.emit('node error', last, '127.0.0.1:7000');
    const failed = new Error('Failed to refresh slots cache.');
    cluster.emit('error', Object.assign(failed, { lastNodeError: last }));
  }

  it('that denies an attempt is told so', () => {
    cluster.emit('node error', DENIAL, '127.0.0.1:7001');
    attemptFails(UNREACHABLE);
    expect(told).toEqual([DENIAL]);
    expect(failureKind(told[0])).toBe('denied');
  });

  it.each(['close', 'connecting'])(
    'of which a node denied something before "%s" is not told of that',
    (event) => {
      cluster.emit('node error', DENIAL, '127.0.0.1:7001');
      cluster.emit(event);
      attemptFails(UNREACHABLE);
      expect(told).toEqual([UNREACHABLE]);
    },
  );

  it('of which a node failed often before is told of the present attempt', () => {
    for (let count = 0; count < 1_000; count++)
      cluster.emit('node error', UNREACHABLE, '127.0.0.1:7001');
    cluster.emit('connecting');
    attemptFails(DENIAL);
    expect(told).toEqual([DENIAL]);
  });
});

describe('Sentinel', () => {
  let client: EventEmitter;

  beforeEach(() => {
    client = listenedTo({ isCluster: false, options: { name: 'group', sentinels: [{}, {}] } });
    client.emit('connecting');
  });

  function says(reason: string): void {
    const words = `failed to connect to sentinel 127.0.0.1:26379 because ${reason}`;
    client.emit('sentinelError', new Error(words));
  }

  function attemptFails(): void {
    client.emit(
      'error',
      new Error('All sentinels are unreachable. Retrying from scratch after 50ms.'),
    );
  }

  it('that denies an attempt is told so', () => {
    says('WRONGPASS invalid username-password pair or user is disabled.');
    says('connect ECONNREFUSED 127.0.0.1:26380');
    attemptFails();
    expect(failureKind(told[0])).toBe('denied');
  });

  it('of which one denied an attempt that another let through is not told of that after the connection was lost', () => {
    says('WRONGPASS invalid username-password pair or user is disabled.');
    for (const event of ['connect', 'ready', 'close', 'reconnecting']) client.emit(event);
    // The last one was asked: ioredis says that none is left before it says that it connects.
    attemptFails();
    client.emit('connecting');
    expect(failureKind(told[0])).toBe('unanswered');
  });
});
