// Which commands a Redis server executed while something ran, what this process wrote for it, and who waits there.
import { Redis } from 'ioredis';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { connect, Socket } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, vi } from 'vitest';
import { Holdfast, type Lock } from '../../src/index.js';
import { eventsOf } from './clients.js';
import { loadScripts } from './lock-commands.js';
import type { RedisServer } from './redis-server.js';
import { eventually } from './time.js';
import { uniqueName } from './unique-name.js';

export interface RecordedCommand {
  /** In upper case. */
  readonly name: string;
  readonly args: readonly string[];
  /** Whether a script ran it. */
  readonly byScript: boolean;
}

/** How often each command ran during `fn`, those inside scripts included, by name in lower case. */
export async function countCommands(
  url: string,
  fn: () => Promise<unknown>,
): Promise<Record<string, number>> {
  const redis = new Redis(url);
  try {
    const before = await commandCounts(redis);
    await fn();
    const counts: Record<string, number> = {};
    for (const [name, count] of await commandCounts(redis)) {
      const more = count - (before.get(name) ?? 0) - (name === 'info' ? 1 : 0);
      if (more > 0) counts[name] = more;
    }
    return counts;
  } finally {
    redis.disconnect();
  }
}

/** The commands that ran during `fn`, in order, by MONITOR. */
export async function recordCommands(
  url: string,
  fn: () => Promise<unknown>,
): Promise<RecordedCommand[]> {
  const redis = new Redis(url);
  await redis.ping(); // connected, so that its handshake is not recorded
  const recorded: RecordedCommand[] = [];
  const marker = randomUUID();
  let reached!: () => void;
  const reachedMarker = new Promise<void>((resolve) => (reached = resolve));
  const monitor = await Monitor.start(url, ({ words: [name = '', ...args], byScript }) => {
    if (args[0] === marker) reached();
    else recorded.push({ name: name.toUpperCase(), args, byScript });
  });
  try {
    await fn();
    await redis.echo(marker);
    await reachedMarker;
    return recorded;
  } finally {
    monitor[Symbol.dispose]();
    redis.disconnect();
  }
}

async function commandCounts(redis: Redis): Promise<Map<string, number>> {
  const info = await redis.info('commandstats');
  const lines = info.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm);
  return new Map([...lines].map(([, name, calls]) => [name!, Number(calls)]));
}

// What a Redis server executes, line by line, by MONITOR on a plain socket: ioredis loses track of its replies when the first
// lines come together with the answer to MONITOR.

interface MonitoredCommand {
  readonly words: readonly string[];
  /** Whether a script ran it. */
  readonly byScript: boolean;
}

const LINE = /^\+\d+\.\d+ \[\d+ (\S+)\] (.*)$/;

class Monitor implements Disposable {
  readonly #socket: Socket;

  private constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Calls back on every command that is executed from now on. */
  static async start(
    url: string,
    onCommand: (command: MonitoredCommand) => void,
  ): Promise<Monitor> {
    const { hostname, port } = new URL(url);
    const socket = connect(Number(port), hostname);
    const lines = createInterface(socket);
    const started = once(lines, 'line');
    socket.write('MONITOR\r\n');
    await started;
    lines.on('line', (line) => {
      const [, source, words = ''] = LINE.exec(line) ?? [];
      if (source) onCommand({ words: unquoted(words), byScript: source === 'lua' });
    });
    return new Monitor(socket);
  }

  [Symbol.dispose](): void {
    this.#socket.destroy();
  }
}

function unquoted(words: string): string[] {
  return [...words.matchAll(/"((?:\\.|[^"\\])*)"/g)].map(([, word = '']) =>
    word.replace(/\\(x..|.)/g, (_, code: string) => {
      if (code.startsWith('x')) return String.fromCharCode(parseInt(code.slice(1), 16));
      return { n: '\n', r: '\r', t: '\t', a: '\x07', b: '\b' }[code] ?? code;
    }),
  );
}

// What this process writes to its sockets while something runs, each system call for itself.

type Write = (this: Socket, ...args: unknown[]) => void;

/** The writes during `fn`, as text. */
export async function socketWrites(fn: () => Promise<unknown>): Promise<string[]> {
  const writes: string[] = [];
  const prototype = Socket.prototype as unknown as Record<'_write' | '_writev', Write>;
  const record = (
    name: keyof typeof prototype,
    asText: (data: unknown) => string,
  ): (() => void) => {
    const write = Reflect.get(prototype, name);
    const spy = vi.spyOn(prototype, name).mockImplementation(function (this: Socket, ...args) {
      writes.push(asText(args[0]));
      write.apply(this, args);
    });
    return () => {
      spy.mockRestore();
    };
  };
  const restore = [
    record('_write', String),
    record('_writev', (chunks) =>
      (chunks as { chunk: unknown }[]).map(({ chunk }) => String(chunk)).join(''),
    ),
  ];
  try {
    await fn();
    return writes;
  } finally {
    for (const undo of restore) undo();
  }
}

// Looks at those who wait for a lock from the server's side: their subscriptions, and the scripts they run.

/**
 * A server of the test file's own that knows all scripts, so that what clients send can be counted; up before the first
 * test begins. The file calls `startRedis()` itself: by that, vitest.config.ts knows that it starts servers.
 */
export function watchedServer(start: () => Promise<RedisServer>): WatchedServer {
  const watched = new WatchedServer();
  beforeAll(async () => {
    await watched.open(await start());
  });
  afterAll(async () => {
    await watched[Symbol.asyncDispose]();
  });
  return watched;
}

interface HolderAndWaiter {
  readonly holder: Holdfast;
  readonly waiter: Holdfast;
  /** The same lock, as the one and as the other has it. */
  readonly held: Lock;
  readonly awaited: Lock;
}

class WatchedServer implements AsyncDisposable {
  redis!: Redis;
  #server!: RedisServer;

  async open(server: RedisServer): Promise<void> {
    this.#server = server;
    await loadScripts(server.url);
    this.redis = new Redis(server.url);
    await this.redis.ping(); // connected, so that no test finds this connection new
  }

  get url(): string {
    return this.#server.url;
  }

  get port(): number {
    return this.#server.port;
  }

  /** Two clients and one lock, which the first is to hold and the second, from there, to wait for. */
  async holderAndWaiter(waiterUrl = this.url): Promise<HolderAndWaiter> {
    const [holder, waiter] = await Promise.all([this.client(), this.client(waiterUrl)]);
    const name = uniqueName();
    return { holder, waiter, held: holder.getLock(name), awaited: waiter.getLock(name) };
  }

  /** A client that is connected, with the lease of 30 s: a lost wake-up shows as a stall. */
  async client(url = this.url): Promise<Holdfast> {
    const client = new Holdfast({ redis: url, commandTimeout: 5_000, wait: Infinity });
    await client.getLock('connected').isLocked();
    return client;
  }

  /** For each channel of this lock, how many connections listen. */
  async subscriptions({ name }: Lock): Promise<number[]> {
    const channels = (await this.redis.pubsub('CHANNELS', `*${name}*`)) as string[];
    const counts = (await this.redis.pubsub('NUMSUB', ...channels)) as (string | number)[];
    return counts.filter((count) => typeof count === 'number');
  }

  /** How many connections have subscribed to anything. */
  async subscribers(): Promise<number> {
    return (await subscribersAt(this.redis)).length;
  }

  /** How many scripts clients ran on this lock during `fn`. */
  async scripts({ name }: Lock, fn: () => Promise<unknown>): Promise<number> {
    const commands = await recordCommands(this.url, fn);
    return commands.filter((command) => command.name === 'EVALSHA' && command.args.includes(name))
      .length;
  }

  /** Calls `start` and waits until so many calls of the client wait for the lock and have nothing to send any more. */
  async waiting(client: Holdfast, lock: Lock, count: number, start: () => void): Promise<void> {
    const told = eventsOf(client, 'waiting');
    start();
    await eventually(async () => {
      expect(told).toHaveLength(count);
      expect(await this.subscriptions(lock)).not.toEqual([]);
    });
    await this.quiet(lock);
  }

  /** Waits until no script has run on this lock for 100 ms. */
  async quiet(lock: Lock): Promise<void> {
    await eventually(async () => {
      expect(await this.scripts(lock, () => sleep(100))).toBe(0);
    });
  }

  /** The lock is held by somebody of another program, who will tell nobody when it is over. */
  async holdSilently({ name }: Lock, leaseMs: number): Promise<void> {
    await this.redis.multi().hset(name, 'somebody:1', 1).pexpire(name, leaseMs).exec();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.redis.disconnect();
    await this.#server[Symbol.asyncDispose]();
  }
}

/** The ids of the connections that subscribe at a server, without those that others have told of changed keys. */
export async function subscribersAt(redis: Redis): Promise<string[]> {
  const list = String(await redis.call('CLIENT', 'LIST'));
  const told = [...list.matchAll(/ redir=(\d+)/g)].map(([, id]) => id);
  const ids = [...list.matchAll(/^id=(\d+) .* flags=\w*P/gm)].map(([, id]) => id!);
  return ids.filter((id) => !told.includes(id));
}
