// Outside any run, on a real server: `finally { unlock() }` after a tryLock() that returned false releases no other request's lock.
import { once } from 'node:events';
import { Agent, createServer as createHttpServer, get } from 'node:http';
import { createServer, connect, type AddressInfo, type Server } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Holdfast } from '../../../src/index.js';
import { elsewhere, newClient } from '../../support/clients.js';
import { gate, type Gate } from '../../support/occupancy.js';
import { uniqueName } from '../../support/unique-name.js';

const BUSY = 'busy LOCK_NOT_HELD';

let client: Holdfast;
let name: string;
/** When it is open, the holder of the lock may finish. */
let finish: Gate;
let inside: number;
let most: number;

beforeEach(() => {
  client = newClient({ lockWatchdogTimeout: 10_000 });
  name = uniqueName();
  finish = gate();
  inside = 0;
  most = 0;
});

afterEach(() => client.close());

/** The usual code of somebody who comes from Java. */
async function handle(): Promise<string> {
  let outcome = 'busy';
  const lock = client.getLock(name);
  try {
    if (await lock.tryLock()) {
      most = Math.max(most, ++inside);
      await finish.opened;
      inside--;
      outcome = 'done';
    }
  } finally {
    await lock.unlock().catch((error: unknown) => {
      outcome += ` ${(error as { code: string }).code}`;
    });
  }
  return outcome;
}

/** Starts one request, has the next three refused meanwhile, lets the first finish, and finds the lock free. */
async function expectTurns(begin: () => Promise<string>): Promise<void> {
  const first = begin();
  await expect.poll(() => inside).toBe(1);
  for (let other = 0; other < 3; other++) expect(await begin()).toBe(BUSY);
  expect(await Promise.all([begin(), begin(), begin()])).toEqual([BUSY, BUSY, BUSY]);
  expect(await client.getLock(name).isLocked()).toBe(true);
  finish.open();
  expect(await first).toBe('done');
  expect(await begin()).toBe('done');
  expect(most).toBe(1);
}

async function listening(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

it.each([false, true])('HTTP requests, keepAlive: %s', async (keepAlive) => {
  const server = createHttpServer((_, response) => {
    void handle().then((outcome) => response.end(outcome));
  });
  const port = await listening(server);
  const agent = new Agent({ keepAlive, maxSockets: keepAlive ? 4 : Infinity });
  await expectTurns(async () => {
    const [response] = (await once(get({ port, host: '127.0.0.1', agent }), 'response')) as [
      NodeJS.ReadableStream,
    ];
    return await text(response);
  });
  agent.destroy();
  server.closeAllConnections();
  server.close();
  await once(server, 'close');
});

it('HTTP requests that one connection sends before it has the answer to the first', async () => {
  const server = createHttpServer((_, response) => {
    void handle().then((outcome) => response.end(`[${outcome}]`));
  });
  const socket = connect(await listening(server), '127.0.0.1');
  let answers = '';
  socket.on('data', (chunk) => (answers += String(chunk)));
  const asked = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
  socket.write(asked.repeat(3));
  await expect.poll(() => inside).toBe(1);
  socket.write(asked.repeat(2));
  await sleep(50);
  expect(await client.getLock(name).isLocked()).toBe(true);
  finish.open();
  await expect
    .poll(() => answers.match(/\[.*?\]/g))
    .toEqual(['[done]', ...Array<string>(4).fill(`[${BUSY}]`)]);
  expect(most).toBe(1);
  expect(await client.getLock(name).isLocked()).toBe(false);
  socket.destroy();
  server.close();
  await once(server, 'close');
});

it('an HTTP request undoes the lock() of an earlier one, whatever came before on its connection', async () => {
  const lock = client.getLock(name);
  const work: Record<string, () => Promise<unknown>> = {
    '/lock': () => lock.lock(),
    '/try': handle,
    '/unlock': () => lock.unlock(),
  };
  const server = createHttpServer(({ url }, response) => {
    const done = work[url!]!();
    void done.then(
      (outcome) => response.end(String(outcome)),
      (error: unknown) => response.end((error as { code: string }).code),
    );
  });
  const port = await listening(server);
  const agents = [0, 1].map(() => new Agent({ keepAlive: true, maxSockets: 1 }));
  finish.open();
  for (const agent of [...agents, ...agents]) {
    const answers: string[] = [];
    for (const path of ['/lock', '/try', '/unlock', '/unlock', '/try', '/unlock']) {
      const sent = get({
        port,
        host: '127.0.0.1',
        path,
        agent: path === '/lock' ? agents[0]! : agent,
      });
      const [response] = (await once(sent, 'response')) as [NodeJS.ReadableStream];
      answers.push(await text(response));
    }
    const none = 'LOCK_NOT_HELD';
    expect(answers).toEqual(['undefined', BUSY, 'undefined', none, 'done', none]);
  }
  for (const agent of agents) agent.destroy();
  server.closeAllConnections();
  server.close();
  await once(server, 'close');
});

it('messages of one socket', async () => {
  const outcomes: Promise<string>[] = [];
  const server = createServer((socket) => {
    socket.on('data', () => {
      outcomes.push(handle());
    });
  });
  const socket = connect(await listening(server), '127.0.0.1');
  await once(socket, 'connect');
  let begun = 0;
  await expectTurns(async () => {
    const number = begun++;
    await expect.poll(() => outcomes.length).toBe(number); // one message at a time: they must not arrive together
    socket.write('job');
    await expect.poll(() => outcomes.length).toBeGreaterThan(number);
    return (await outcomes[number])!;
  });
  socket.destroy();
  server.close();
  await once(server, 'close');
});

it('ticks of one interval', async () => {
  const outcomes: string[] = [];
  let ticks = 0;
  const interval = setInterval(() => {
    if (++ticks <= 4) void handle().then((outcome) => outcomes.push(outcome));
  }, 20);
  await expect.poll(() => outcomes).toEqual([BUSY, BUSY, BUSY]);
  finish.open();
  await expect.poll(() => outcomes.at(-1)).toBe('done');
  clearInterval(interval);
  expect(await client.getLock(name).isLocked()).toBe(false);
});

it('a worker loop in each of two clients: a worker releases only its own lock', async () => {
  await using other = newClient({ lockWatchdogTimeout: 10_000 });
  let done = 0;
  const work = async (worker: Holdfast): Promise<void> => {
    const lock = worker.getLock(name);
    for (let jobs = 0; jobs < 20;) {
      try {
        if (!(await lock.tryLock())) continue;
        most = Math.max(most, ++inside);
        await sleep(1);
        inside--;
        jobs++;
        done++;
      } finally {
        await lock.unlock().catch((error: unknown) => {
          expect(error).toMatchObject({ code: 'LOCK_NOT_HELD' });
        });
        await sleep(1);
      }
    }
  };
  const workers = [client, client, client, other, other].map((worker) =>
    elsewhere(() => work(worker)),
  );
  await Promise.all(workers);
  expect([done, most]).toEqual([100, 1]);
});

it('a helper that waits for its turn by one call locks for its caller; by several tries it does not', async () => {
  const first = elsewhere(handle);
  await expect.poll(() => inside).toBe(1);
  setTimeout(finish.open, 50);
  const untilLocked = async (): Promise<void> => {
    while (!(await client.getLock(name).tryLock())) await sleep(10);
  };
  await untilLocked();
  expect(await first).toBe('done');
  const lock = client.getLock(name);
  await expect(lock.unlock()).rejects.toThrow('use tryLock(wait) instead of several tries');
  await elsewhere(() => lock.unlock());
  expect(await (async () => await lock.tryLock(1_000))()).toBe(true);
  await lock.unlock();
  expect(await lock.isLocked()).toBe(false);
});

it('the token of a fenced lock that was refused counts as well', async () => {
  const lock = client.getFencedLock(name);
  await elsewhere(() => lock.lockAndGetToken());
  expect(await lock.tryLockAndGetToken()).toBeUndefined();
  await expect(lock.unlock()).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
  await elsewhere(() => lock.unlock());
  expect(await lock.lockAndGetToken()).toBeGreaterThan(0n);
  await lock.unlock();
});
