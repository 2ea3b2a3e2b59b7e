// What the port promises of one connection that needs no socket: a server in memory keeps it as well (src/redis/port.ts).
import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { failureKind, isReply, UnsentError } from '../../src/redis/failure.js';
import {
  INVALIDATIONS,
  type Address,
  type Connection,
  type Heard,
  type Library,
  type Purpose,
} from '../../src/redis/port.js';

export const SECRET = 'hunter2-secret';

/** The longest time for closing a connection, whatever it is doing. */
const SOON_MS = 1_000;

/** A library that reconnects by itself has done so after this. */
export const AGAIN_MS = 600;

/** One attempt, and the calls that it received. */
export class Attempt {
  readonly connection: Connection;
  /** In order. */
  readonly told: string[] = [];
  readonly messages: string[] = [];
  readonly invalidated: (readonly string[] | undefined)[] = [];
  readonly ready: Promise<void>;
  readonly ended: Promise<Error | undefined>;

  constructor(library: Library, address: Address, purpose: Purpose = 'commands') {
    let ready!: () => void;
    let ended!: (reason: Error | undefined) => void;
    this.ready = new Promise((resolve) => (ready = resolve));
    this.ended = new Promise((resolve) => (ended = resolve));
    const heard: Heard = {
      ready: () => {
        this.told.push('ready');
        ready();
      },
      ended: (reason) => {
        this.told.push('ended');
        ended(reason);
      },
      message: (channel, payload) => this.messages.push(`${channel}: ${payload}`),
      moved: () => this.told.push('moved'),
      invalidated: (keys) => this.invalidated.push(keys),
    };
    this.connection = library.open(address, purpose, heard);
    expect(this.told).toEqual([]);
  }

  ask(command: Lowercase<string>, ...args: (string | number)[]): Promise<unknown> {
    return this.connection.send(command, args, (reply) => reply, failing);
  }

  failureOf(command: Lowercase<string>, ...args: (string | number)[]): Promise<Error> {
    const answered = (): never => {
      throw new Error(`${command} was answered`);
    };
    return this.connection.send(command, args, answered, (error) => error);
  }

  subscribe(channels: readonly string[], isSharded = false): Promise<Error | undefined> {
    return new Promise((resolve) => {
      this.connection.subscribe(channels, isSharded, resolve);
    });
  }
}

function failing(error: Error): never {
  throw error;
}

export const NO_SHARDED = 'Redis before 7 has no sharded channels';

/** A server, and a client library for it. */
export interface PortWorld {
  /** Whether the server has sharded channels. Redis before 7 has none. */
  hasSharded(): Promise<boolean>;
  attempt(purpose?: Purpose): Attempt;
  /** An attempt to connect where nobody listens. */
  unheard(): Promise<Attempt>;
  /** How many connections of the library the server has. */
  connectionCount(): Promise<number>;
  /** Ends its connections at the server, once a command is waiting there. */
  kill(): Promise<unknown>;
  /** Returns how many subscribers received it. */
  publish(channel: string, payload: string, isSharded: boolean): Promise<number>;
  /** Deletes all keys, at once. */
  flush(): Promise<unknown>;
  /** Deletes all keys, one by one, as a server does whose memory is full. */
  evict(): Promise<unknown>;
}

/** Closes it. Also checks that it ends once, and leaves no connection behind. */
export async function closed(world: PortWorld, attempt: Attempt): Promise<void> {
  const beganMs = performance.now();
  await attempt.connection.close();
  expect(performance.now() - beganMs).toBeLessThan(SOON_MS);
  await attempt.ended;
  await attempt.connection.close();
  expect(attempt.told.filter((each) => each === 'ended')).toHaveLength(1);
  await expect.poll(() => world.connectionCount()).toBe(0);
}

export function portPromises(world: () => PortWorld): void {
  async function opened(purpose?: Purpose): Promise<Attempt> {
    const attempt = world().attempt(purpose);
    await attempt.ready;
    return attempt;
  }

  it('is ready once and returns replies in the order of their commands', async () => {
    const attempt = await opened();
    const replies = Promise.all([
      attempt.ask('del', 'k', 'h'),
      attempt.ask('set', 'k', 'ü€'),
      attempt.ask('get', 'k'),
      attempt.ask('get', 'none'),
      attempt.ask('hset', 'h', 'one', 1, 'two', 2),
      attempt.ask('hmget', 'h', 'two', 'none'),
      attempt.ask('info', 'replication'),
    ]);
    attempt.connection.flush();
    const text = expect.stringContaining('role:master') as string;
    const count = expect.any(Number) as number;
    await expect(replies).resolves.toEqual([count, 'OK', 'ü€', null, 2, ['2', null], text]);
    await closed(world(), attempt);
    expect(attempt.told).toEqual(['ready', 'ended']);
    expect(await attempt.ended).toBeUndefined();
  });

  it('writes gathered commands, all at once or one by one', async () => {
    const attempt = await opened();
    attempt.connection.gather();
    const first = attempt.ask('ping', '1');
    attempt.connection.gather();
    const second = attempt.ask('ping', '2');
    await expect(Promise.all([first, second])).resolves.toEqual(['1', '2']);
    await closed(world(), attempt);
  });

  it('rejects with what a reader throws, which is not a failure of the command', async () => {
    const attempt = await opened();
    const failures: Error[] = [];
    const sent = attempt.connection.send<never>(
      'ping',
      [],
      () => {
        throw new Error('no use for that');
      },
      (error) => {
        failures.push(error);
        throw error;
      },
    );
    await expect(sent).rejects.toThrow('no use for that');
    expect(failures).toEqual([]);
    await closed(world(), attempt);
  });

  it('reads more bytes with each reply', async () => {
    const attempt = await opened();
    const before = attempt.connection.bytesRead;
    await attempt.ask('ping');
    expect(attempt.connection.bytesRead).toBeGreaterThan(before);
    await closed(world(), attempt);
  });

  it('reports an error of the server by its words, without the command', async () => {
    const attempt = await opened();
    const unknown = await attempt.failureOf('nosuch', SECRET);
    expect(isReply(unknown)).toBe(true);
    expect(unknown.message).toContain('unknown command');
    expect(inspect(unknown, { depth: Infinity, showHidden: true })).not.toContain(SECRET);
    const missing = await attempt.failureOf('evalsha', 'f'.repeat(40), 0);
    expect(missing.name).toBe('ReplyError');
    expect(missing.message).toMatch(/^NOSCRIPT /);
    await expect(attempt.ask('ping', 'still here')).resolves.toBe('still here');
    await closed(world(), attempt);
  });

  it('ends with the reason if nobody listens', async () => {
    const attempt = await world().unheard();
    expect(inspect(await attempt.ended)).toContain('ECONNREFUSED');
    await sleep(AGAIN_MS);
    expect(attempt.told).toEqual(['ended']);
    expect(await attempt.failureOf('ping')).toBeInstanceOf(UnsentError);
    await attempt.connection.close();
  });

  it('that is killed fails unanswered commands, ends once, and does not reconnect', async () => {
    const attempt = await opened();
    const failed = attempt.failureOf('wait', 9, 60_000).then((error) => ({
      kind: failureKind(error),
      toldBefore: [...attempt.told],
    }));
    await world().kill();
    await attempt.ended;
    await new Promise(setImmediate);
    const { kind, toldBefore } = await failed;
    expect(kind).toBe('unanswered');
    expect(toldBefore[0]).toBe('ready');
    expect(await attempt.failureOf('ping')).toBeInstanceOf(UnsentError);
    await sleep(AGAIN_MS);
    expect(attempt.told).toEqual(['ready', 'ended']);
    expect(await world().connectionCount()).toBe(0);
    await attempt.connection.close();
  });

  it('fails unanswered commands when it is closed, and later ones as unsent', async () => {
    const attempt = await opened();
    const failure = attempt.failureOf('wait', 9, 60_000);
    await sleep(50);
    const closing = closed(world(), attempt);
    expect(await attempt.failureOf('ping')).toBeInstanceOf(UnsentError);
    expect(failureKind(await failure)).toBe('unanswered');
    await closing;
    expect(await attempt.failureOf('ping')).toBeInstanceOf(UnsentError);
  });

  it('can be closed at once', async () => {
    const attempt = world().attempt();
    await closed(world(), attempt);
    await sleep(50);
    expect(attempt.told).toEqual(['ended']);
  });

  it.for([
    ['classic', false],
    ['sharded', true],
  ] as const)(
    'subscribes to %s channels, and receives messages',
    async ([, isSharded], { skip }) => {
      skip(isSharded && !(await world().hasSharded()), NO_SHARDED);
      const attempt = await opened('subscriptions');
      const [first, second] = isSharded ? ['open:{1}', 'open:{2}'] : ['open1', 'open2'];
      const publish = (channel: string, payload: string): Promise<number> =>
        world().publish(channel, payload, isSharded);
      const channels = isSharded ? [first] : [first, second];
      expect(await attempt.subscribe(channels, isSharded)).toBeUndefined();
      if (isSharded) expect(await attempt.subscribe([second], true)).toBeUndefined();
      const before = attempt.connection.bytesRead;
      await publish(first, 'ü');
      await publish(second, '2');
      await expect.poll(() => attempt.messages).toEqual([`${first}: ü`, `${second}: 2`]);
      expect(attempt.connection.bytesRead).toBeGreaterThan(before);
      attempt.connection.unsubscribe(first, isSharded, failing);
      await expect.poll(() => publish(first, 'gone')).toBe(0);
      const pong = await attempt.ask('ping', 'alive');
      expect(String(Array.isArray(pong) ? pong.at(-1) : pong)).toBe('alive');
      await publish(second, '3');
      await expect.poll(() => attempt.messages.at(-1)).toBe(`${second}: 3`);
      await closed(world(), attempt);
      expect(attempt.told).toEqual(['ready', 'ended']);
    },
  );

  it.for([
    ['classic', false],
    ['sharded', true],
  ] as const)(
    'subscribes to a %s channel again while its UNSUBSCRIBE is unanswered',
    async ([, isSharded], { skip }) => {
      skip(isSharded && !(await world().hasSharded()), NO_SHARDED);
      const attempt = await opened('subscriptions');
      const leave = (): void => {
        attempt.connection.unsubscribe('open', isSharded, failing);
      };
      const answers = [attempt.subscribe(['open'], isSharded)];
      for (let times = 0; times < 3; times++) {
        leave();
        answers.push(attempt.subscribe(['open'], isSharded));
        expect(await Promise.all(answers)).toEqual(answers.map(() => undefined));
        await attempt.ask('ping', 'behind');
        expect(await world().publish('open', String(times), isSharded)).toBe(1);
        await expect.poll(() => attempt.messages.at(-1)).toBe(`open: ${String(times)}`);
      }
      await closed(world(), attempt);
    },
  );

  it('runs no other commands once it has subscribed', async () => {
    const attempt = await opened('subscriptions');
    expect(await attempt.subscribe(['open'])).toBeUndefined();
    expect((await attempt.failureOf('client', 'ID')).message).toMatch(/subscriber|SUBSCRIBE/);
    await attempt.ask('ping', 'alive');
    await closed(world(), attempt);
  });

  describe('hears which keys have changed that another connection has read:', () => {
    let reader: Attempt;
    let hearer: Attempt;
    let other: Attempt;
    let heard: Attempt['invalidated'];
    let id: number;

    beforeEach(async () => {
      [reader, hearer, other] = [await opened(), await opened('subscriptions'), await opened()];
      heard = hearer.invalidated;
      id = Number(await hearer.ask('client', 'ID'));
    });

    afterEach(async () => {
      expect(hearer.messages).toEqual([]);
      for (const attempt of [reader, hearer, other]) await attempt.connection.close();
      await expect.poll(() => world().connectionCount()).toBe(0);
    });

    async function telling(): Promise<void> {
      expect(await hearer.subscribe([INVALIDATIONS])).toBeUndefined();
      await expect(track(reader)).resolves.toBe('OK');
    }

    function track(by: Attempt, to = id): Promise<unknown> {
      return by.ask('client', 'TRACKING', 'ON', 'REDIRECT', to);
    }

    function read(key: string, by = reader): Promise<unknown> {
      return by.ask('hget', key, 'field');
    }

    /** Resolves when everything that was told before has been heard. */
    async function behind(): Promise<void> {
      await hearer.ask('ping', 'behind');
      await other.ask('ping', 'behind');
      await hearer.ask('ping', 'behind');
    }

    async function change(key: string): Promise<void> {
      await other.ask('hset', key, 'field', 1);
    }

    it('once for each time it was read, whoever changes it, and whether it was there', async () => {
      await telling();
      await change('h,ü');
      await behind();
      expect(heard).toEqual([]); // nobody had read it
      await read('h,ü');
      await read('none');
      await change('h,ü');
      await change('h,ü');
      await expect.poll(() => heard).toEqual([['h,ü']]);
      await read('h,ü');
      await other.ask('set', 'none', 1);
      await reader.ask('pexpire', 'h,ü', 60_000); // its own change
      await expect.poll(() => heard.flat()).toEqual(['h,ü', 'none', 'h,ü']);
      expect((await reader.failureOf('hget', 'none', 'field')).message).toMatch(/^WRONGTYPE /);
      await other.ask('del', 'none');
      await expect.poll(() => heard.slice(3)).toEqual([['none']]);
    });

    it('not of a command that changes nothing, and not of a stranger who publishes on its channel', async () => {
      await telling();
      await change('h');
      await read('h');
      await read('none');
      await other.ask('hget', 'h', 'field');
      await other.ask('hdel', 'h', 'none');
      await other.ask('del', 'none');
      await other.ask('pexpire', 'none', 1_000);
      await world().publish(INVALIDATIONS, 'h', false); // no list
      await behind();
      expect(heard).toEqual([]);
    });

    it('once of a flush, which forgets who has read what', async () => {
      await telling();
      await change('h');
      await read('h');
      await read('none');
      await world().flush();
      await change('h');
      await change('none');
      await behind();
      expect(heard).toEqual([undefined]);
      await world().flush(); // though it has read nothing since
      await expect.poll(() => heard).toEqual([undefined, undefined]);
    });

    it('of one that the server drops: it has expired, or memory is full', async () => {
      await telling();
      await change('h');
      await change('brief');
      await other.ask('pexpire', 'brief', 100);
      await read('h');
      await read('brief');
      await sleep(150);
      await other.ask('exists', 'brief'); // at the latest a look drops it
      await expect.poll(() => heard).toEqual([['brief']]);
      await world().evict();
      await expect.poll(() => heard.slice(1)).toEqual([['h']]);
    });

    it('of a key that was read when it had expired', async () => {
      await telling();
      await change('brief');
      await other.ask('pexpire', 'brief', 100);
      await sleep(150);
      await read('brief');
      await change('brief');
      await expect.poll(() => heard).toEqual([['brief']]);
    });

    it('not while it has not subscribed; that spends the reading, too', async () => {
      await track(reader);
      await read('h');
      await change('h');
      await telling();
      await change('h');
      await read('h');
      hearer.connection.unsubscribe(INVALIDATIONS, false, failing);
      await behind();
      await change('h');
      await behind();
      expect(heard).toEqual([]);
    });

    it('not from a reader that has ended, or does not track any more', async () => {
      await telling();
      await read('h');
      await reader.ask('client', 'TRACKING', 'OFF');
      const leaving = await opened();
      await track(leaving);
      await read('h', leaving);
      await closedAlone(leaving);
      await change('h');
      await behind();
      expect(heard).toEqual([]);
    });

    it('of each reader, and from none whose hearer has ended', async () => {
      await telling();
      const second = await opened();
      const gone = await opened('subscriptions');
      const goneId = Number(await gone.ask('client', 'ID'));
      await track(second);
      await track(other, goneId);
      expect(await gone.subscribe([INVALIDATIONS])).toBeUndefined();
      for (const each of [reader, second, other]) await read('h', each);
      await closedAlone(gone);
      await change('h');
      await expect.poll(() => heard).toEqual([['h'], ['h']]);
      expect(gone.invalidated).toEqual([]);
      expect(
        (await other.failureOf('client', 'TRACKING', 'ON', 'REDIRECT', goneId)).message,
      ).toMatch(/does not exist/);
      await second.connection.close();
    });

    /** Closes it, and waits until the server has heard of it. */
    async function closedAlone(attempt: Attempt): Promise<void> {
      const count = await world().connectionCount();
      await attempt.connection.close();
      await expect.poll(() => world().connectionCount()).toBe(count - 1);
    }
  });
}
