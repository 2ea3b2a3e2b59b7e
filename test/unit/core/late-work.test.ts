// A function under a lock whose value does its work only later, after the release: a generator object, a stream, an Observable.
import { createServer, IncomingMessage, type ServerResponse } from 'node:http';
import { Socket, type AddressInfo } from 'node:net';
import { Duplex, PassThrough, Readable, Writable } from 'node:stream';
import { Observable, of } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Holdfast, OptionError } from '../../../src/index.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';
import { rejectionOf } from '../../support/clients.js';

let client: Holdfast;

beforeEach(() => {
  client = new Holdfast({ redis: new MemoryRedis() });
});

afterEach(() => client.close());

/** The ways to run a function while something is held, and what tells whether it is free again. */
const CALLS = {
  'withLock()': (fn: () => unknown) => client.getLock('a').withLock(fn),
  'withLock() of a MultiLock': (fn: () => unknown) =>
    client.getMultiLock(client.getLock('a'), client.getLock('b')).withLock(fn),
  'withPermits()': (fn: () => unknown) => semaphore().withPermits(fn),
};

const semaphore = () => client.getSemaphore('permits', { permits: 1 });

function* rows(): Generator<number> {
  yield 1;
  throw new Error('its work began');
}

async function* rowsLater(): AsyncGenerator<number> {
  yield await Promise.resolve(1);
  throw new Error('its work began');
}

const endless = (): Readable => new Readable({ read: () => undefined });

/** What a function may return, and whether it was ended. */
const LATER: Record<string, () => [value: unknown, isEnded: () => boolean | Promise<boolean>]> = {
  'a generator object': () => {
    const value = rows();
    return [value, () => value.next().done === true];
  },
  'an async generator object': () => {
    const value = rowsLater();
    return [value, async () => (await value.next()).done === true];
  },
  'a Node.js stream to read': () => {
    const value = endless();
    return [value, () => value.destroyed];
  },
  'a Node.js stream that somebody reads': () => {
    const value = endless().on('data', () => undefined);
    return [value, () => value.destroyed];
  },
  'a Node.js stream that emits an error when it is ended': () => {
    const destroy: Readable['_destroy'] = (_, done) => {
      done(new Error('aborted'));
    };
    const value = new Readable({ read: () => undefined, destroy });
    return [value, () => value.destroyed];
  },
  'a Node.js stream that another one is piped into': () => {
    const value = endless().pipe(new Writable({ write: () => undefined }));
    return [value, () => value.destroyed];
  },
  'a Node.js stream that changes another one': () => {
    const value = endless().pipe(new PassThrough());
    return [value, () => value.destroyed];
  },
  'a ReadableStream': () => {
    let isEnded = false;
    const value = new ReadableStream({ cancel: () => void (isEnded = true) });
    return [value, () => isEnded];
  },
  'a WritableStream': () => {
    let isEnded = false;
    const value = new WritableStream({ abort: () => void (isEnded = true) });
    return [value, () => isEnded];
  },
  'a TransformStream': () => {
    const value = new TransformStream();
    const read = value.readable.getReader().read();
    return [value, () => read.then(() => false).catch(() => true)];
  },
  'an Observable': () => [of(1), () => true],
  'an Observable of its own class': () => [
    new (class extends Observable<number> {})(() => expect.fail('it was subscribed to')),
    () => true,
  ],
};

describe.each(Object.entries(CALLS))('%s', (call, within) => {
  it.each(Object.keys(LATER))('refuses %s, ends it, and frees the lock', async (what) => {
    for (const wrap of [(value: unknown) => value, (value: unknown) => Promise.resolve(value)]) {
      const [value, isEnded] = LATER[what]!();
      const error = await rejectionOf(within(() => wrap(value)));
      expect(error).toBeInstanceOf(OptionError);
      expect((error as Error).message).toMatch(/resolved to an? .*, whose work would begin after/);
      expect((error as Error).message).toContain(call.slice(0, call.indexOf(')')));
      expect(await isEnded()).toBe(true);
    }
    expect(await client.getLock('a').isLocked()).toBe(false);
    expect(await semaphore().availablePermits()).toBe(1);
  });

  const DONE: Record<string, () => unknown> = {
    undefined: () => undefined,
    'a plain object': () => ({ next: 1, pipe: 2 }),
    'an array': () => [1],
    'a Map, which can be iterated': () => new Map([[1, 2]]),
    'an iterator of an array': () => [1].values(),
    'a client that can subscribe': () =>
      new (class Client {
        readonly subscribe = (): number => 1;
      })(),
    'a stream to write to': () => new Writable({ write: () => undefined }),
    'a stream to write to that can be read': () => new PassThrough(),
    'a connection that nobody reads yet': () => new Socket(),
    'a request of an HTTP client': () => new IncomingMessage(new Socket()),
    'an object with methods of a web stream': () =>
      new (class Table {
        readonly getReader = (): number => 1;
        readonly cancel = (): void => expect.fail('it was cancelled');
      })(),
    'an object whose getter throws': () =>
      new (class Lazy {
        get pipe(): unknown {
          throw new Error('not yet');
        }
      })(),
    'a logger that is a stream, and returns itself': () =>
      new PassThrough({ objectMode: true }).on('data', () => undefined),
    'a stream that has ended': () => {
      const stream = endless();
      stream.destroy();
      return stream;
    },
    'a Proxy that has all methods': () =>
      new Proxy(new Map(), { get: (_, key) => (key === 'then' ? undefined : () => 1) }),
  };

  it.each(Object.keys(DONE))('returns %s as it is', async (what) => {
    const value = DONE[what]!();
    expect(await within(() => value)).toBe(value);
  });

  it('returns the rows of a query that can be awaited and iterated', async () => {
    const query = {
      then: (resolve: (rows: number[]) => void) => {
        resolve([1, 2]);
      },
      *[Symbol.iterator]() {
        yield 1;
      },
      pipe: () => undefined,
      on: () => undefined,
    };
    expect(await within(() => query)).toEqual([1, 2]);
  });
});

it('a response of an HTTP server passes, whether it has been sent or not', async () => {
  const lock = client.getLock('a');
  const server = createServer((_: IncomingMessage, response) => {
    const ended = (): ServerResponse => response.end('done');
    void lock.withLock(() => response).then(() => lock.withLock(ended));
  }).listen(0);
  const { port } = server.address() as AddressInfo;
  const answer = await fetch(`http://localhost:${String(port)}/`);
  expect(await answer.text()).toBe('done');
  server.close();
});

it('a stream that was ended on its writing side passes: a middleware may have replaced the end of a response by its own', async () => {
  const duplex = new Duplex({ read: () => undefined, write: () => undefined });
  expect(await client.getLock('a').withLock(() => duplex.end('done'))).toBe(duplex);
  expect(duplex.destroyed).toBe(false);
  duplex.destroy();
});

it('a generator whose end throws is refused all the same', async () => {
  const stubborn = (function* () {
    try {
      yield 1;
    } finally {
      throw new Error('at its end'); // eslint-disable-line no-unsafe-finally
    }
  })();
  stubborn.next();
  const error = await rejectionOf(client.getLock('a').withLock(() => stubborn));
  expect(error).toBeInstanceOf(OptionError);
});
