// A client without Redis, for unit tests: the real one over the server in memory, with a network on which a test decides how long each message
// travels, and which command or reply is lost.
import { expect, vi } from 'vitest';
import type { HoldfastEvents } from '../../src/api/events.js';
import type { Lock } from '../../src/api/lock.js';
import type { Reachable } from '../../src/core/session.js';
import { Holdfast } from '../../src/holdfast.js';
import type { HoldfastOptions } from '../../src/options.js';
import { LockKeys } from '../../src/redis/keys.js';
import { LIBRARY, type Library } from '../../src/redis/port.js';
import { scripts } from '../../src/redis/scripts.generated.js';
import { PROCESS_CLOCK } from '../../src/runtime/clock.js';
import { memoryLibrary, type Network, type Way } from '../../src/testing/connection.js';
import type { Reply } from '../../src/testing/lua-runtime.js';
import { MemoryServer, type Peer, type ServerOptions } from '../../src/testing/server.js';

/** What becomes of one command; with what is lost, its connection is cut. */
export type Fate = 'answered' | 'lost reply' | 'lost command' | 'denied' | 'loading';

const REFUSALS: Partial<Record<Fate, string>> = {
  denied: 'NOPERM this user has no permissions',
  loading: 'LOADING Redis is loading the dataset in memory',
};

export class FakeServer extends MemoryServer {
  /** What was executed, in order: `acquire orders me:1`. */
  readonly commands: string[] = [];
  /** Awaited on the way to the server and on the way back; at once by default. */
  travel: (to: Way['to']) => Promise<void> = () => Promise.resolve();
  /** Decides on each command that arrives; `answered` by default. */
  fate: (command: string) => Fate = () => 'answered';
  /** The server's own end of a connection, for what a test does to its keys. */
  readonly #own: Peer = {
    classic: new Set(),
    sharded: new Set(),
    lastWriteMs: -Infinity,
    backlog: undefined,
    message: () => undefined,
    hungUp: () => undefined,
  };

  constructor(options?: ServerOptions) {
    super(PROCESS_CLOCK, options);
  }

  override take(
    peer: Peer,
    command: string,
    args: readonly string[],
    answer: (reply: Reply) => void,
  ): void {
    const said = peer === this.#own ? [] : wordsOf(command, args);
    const fates = said.map((each) => this.fate(each));
    const cut = (): void => {
      this.leave(peer);
      peer.hungUp();
    };
    if (fates.includes('lost command')) {
      cut();
      return;
    }
    const refusal = fates.map((fate) => REFUSALS[fate]).find((err) => err !== undefined);
    if (refusal !== undefined) {
      answer({ err: refusal });
      return;
    }
    this.commands.push(...said);
    super.take(peer, command, args, fates.includes('lost reply') ? cut : answer);
  }

  /** Who holds a lock, and how often. */
  holder(name: string): { owner: string; count: number } | undefined {
    const [holder] = this.#holders(name);
    return holder && { owner: holder[0], count: Number(holder[1]) };
  }

  /** How a read-write lock is held: `RR`, `W`, or nothing. */
  access(name: string): string {
    return this.#holders(name)
      .map(([, weight]) => (Number.parseInt(weight, 10) > 1 ? 'W' : 'R'))
      .join('');
  }

  /** Who they are, without their client's digits. */
  owners(name: string): string[] {
    return this.#holders(name).map(([owner]) => withoutDigits(owner));
  }

  /** The names of the locks that are held. */
  get heldNames(): string[] {
    return this.keys.names.filter((name) => !name.includes('{') && this.#holders(name).length > 0);
  }

  /** How many listen for a lock's releases. */
  listenerCount(name: string): number {
    const { channel } = new LockKeys(name);
    return this.channels.filter((each) => each === channel).length;
  }

  /** Somebody else takes it, also from a holder. */
  hold(name: string, owner = 'somebody-else:1', leaseMs = 30_000): void {
    this.delete(name);
    this.execute('HSET', name, owner, '1');
    this.execute('PEXPIRE', name, String(leaseMs));
  }

  /** It becomes free, whoever had it. */
  free(name: string): void {
    this.delete(name);
    this.execute('PUBLISH', new LockKeys(name).channel, '0');
  }

  /** Something that is no lock takes the place of its key. */
  occupy(name: string): void {
    this.execute('SET', name, 'something else');
  }

  /** Its key goes, and nobody hears of it. */
  delete(name: string): void {
    this.execute('DEL', name);
  }

  /** Runs a command, whatever it does to the keys. */
  execute(command: string, ...args: string[]): void {
    this.accept(this.#own);
    this.take(this.#own, command, args, () => undefined);
    this.leave(this.#own);
  }

  #holders(name: string): [owner: string, count: string][] {
    const value = this.keys.entry(name)?.value;
    return value instanceof Map ? [...value].filter(([field]) => field.includes(':')) : [];
  }
}

const scriptNames = new Map(
  Object.entries(scripts).flatMap(([name, { sha1, source }]) => [
    [sha1, name],
    [source, name],
  ]),
);

/** What a command says, without the client's digits in its owners; nothing if it is about the connection alone. Of several gathered calls: each. */
function wordsOf(command: string, [first = '', ...rest]: readonly string[]): string[] {
  const name = scriptNames.get(first);
  if (!name) return /^(exists|hget|hlen|type|pttl)$/i.test(command) ? [`look ${first}`] : [];
  const [keyCount, ...given] = rest;
  const [key = '', ...moreKeys] = given.splice(0, Number(keyCount));
  const [owner = '', second = ''] = given;
  const as = (...words: string[]): string[] => [withoutDigits(words.join(' '))];
  switch (name) {
    case 'renew':
    case 'weightedRenew':
      return ['renew'];
    case 'reenter':
      return as('reenter', key, owner, second);
    case 'releaseTo':
      return as('hand over', key, owner, second);
    case 'weightedJoin':
      return as('join', key, owner, Number(second) > 1 ? 'W' : 'R');
    case 'weightedHandOver':
      if (second === '0') return as('release', key, owner);
      return as('keep', key, owner, second === '1' ? 'R' : 'W');
    case 'gather': {
      const owners = given.slice(3).filter((each) => each.includes(':'));
      const keys = [key, ...moreKeys].filter((each) => !each.includes('{'));
      return Array.from(given[0] ?? '').flatMap((kind, index) =>
        as('rw'.includes(kind) ? 'release' : 'acquire', keys[index] ?? '', owners[index] ?? ''),
      );
    }
    default:
      return as(name, key, ...(owner.includes(':') ? [owner] : []));
  }
}

/** The numbers of each client's owners, in the order in which they appeared. */
const numbersOf = new Map<string, Map<string, number>>();

/** Owners without their client's host, process and digits, and numbered from 1, in place of the time when their calls began. */
function withoutDigits(text: string): string {
  return text.replaceAll(
    /(\S+?)(?:-\S+-\d+)?-([0-9a-f]{12}):(\d{16})/g,
    (_, name: string, digits: string, number: string) => {
      const numbers = numbersOf.get(digits) ?? new Map<string, number>();
      numbersOf.set(digits, numbers);
      if (!numbers.has(number)) numbers.set(number, numbers.size + 1);
      return `${name}:${String(numbers.get(number))}`;
    },
  );
}

/** Everything arrives in the order in which it was sent, when it has travelled. */
class FakeNetwork implements Network {
  readonly #server: FakeServer;
  readonly #last = new WeakMap<Way, Promise<unknown>>();

  constructor(server: FakeServer) {
    this.#server = server;
  }

  carry(way: Way, deliver: () => void): void {
    const arrival = Promise.all([this.#last.get(way), this.#server.travel(way.to)]);
    this.#last.set(way, arrival.then(deliver));
  }
}

export interface FakeOptions extends Partial<HoldfastOptions> {
  server?: FakeServer;
}

export interface FakeHoldfast {
  readonly server: FakeServer;
  readonly holdfast: Holdfast;
  /** Everything that was passed to process.emitWarning. */
  readonly processWarnings: string[];
  readonly getLock: (name: string) => Lock;
  readonly run: Holdfast['run'];
  readonly detach: Holdfast['detach'];
  /** All events of one kind so far, those of `run` included. */
  readonly told: <Name extends keyof HoldfastEvents>(
    name: Name,
  ) => Parameters<HoldfastEvents[Name]>[0][];
}

/** Matches the owner of this number of the client `me`. */
export function ownerOfMe(number: number): unknown {
  return expect.toSatisfy((owner: string) => withoutDigits(owner) === `me:${String(number)}`);
}

/** A client with the read-write lock `a`. */
export interface FakeReadWrite extends FakeHoldfast {
  readonly readLock: Lock;
  readonly writeLock: Lock;
  readonly there: FakeAccess;
}

/** How the server has it. */
interface FakeAccess {
  /** Who has it: `RR`, `W`, or nothing. */
  readonly held: string;
  readonly owners: string[];
  /** Its key goes, and nobody hears of it. */
  delete(): void;
}

export function fakeReadWrite(options?: FakeOptions): FakeReadWrite {
  const fake = fakeHoldfast(options);
  const { server, holdfast } = fake;
  const lock = holdfast.getReadWriteLock('a');
  const there: FakeAccess = {
    get held() {
      return server.access('a');
    },
    get owners() {
      return server.owners('a');
    },
    delete: () => {
      server.delete('a');
    },
  };
  return { ...fake, there, readLock: lock.readLock(), writeLock: lock.writeLock() };
}

/** A connection that is always there. */
export const alwaysReady: Reachable = {
  isReady: true,
  whenReady: () => Promise.resolve(),
  lastError: undefined,
};

const EVENT_NAMES = ['acquired', 'released', 'waiting', 'renewed', 'lost', 'warning', 'error'];

/** The option `redis` of a client of this server. */
export function sourceOf(server: FakeServer): object {
  return { [LIBRARY]: (): Library => memoryLibrary(server, new FakeNetwork(server)) };
}

export function fakeHoldfast({
  server = new FakeServer(),
  ...more
}: FakeOptions = {}): FakeHoldfast {
  const holdfast = new Holdfast({
    redis: sourceOf(server),
    clientId: 'me',
    wait: Infinity,
    ...more,
  });
  const processWarnings: string[] = [];
  vi.spyOn(process, 'emitWarning').mockImplementation((warning) => {
    processWarnings.push(String(warning));
  });
  const told = new Map<string, unknown[]>();
  for (const name of EVENT_NAMES) {
    const list: unknown[] = [];
    told.set(name, list);
    holdfast.on(name as 'error', (event) => void list.push(event));
  }
  return {
    server,
    holdfast,
    processWarnings,
    getLock: (name) => holdfast.getLock(name),
    run: (fn) => holdfast.run(fn),
    detach: (fn) => holdfast.detach(fn),
    told: (name) => (told.get(name) ?? []) as Parameters<HoldfastEvents[typeof name]>[0][],
  };
}
