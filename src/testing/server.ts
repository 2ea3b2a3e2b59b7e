// One server in memory: its keys, its connections, its channels, its replicas and its failures. A command runs when it arrives here.

import { scripts } from '../redis/scripts.generated.js';
import { INVALIDATIONS } from '../redis/port.js';
import { PROCESS_RANDOM, type Clock } from '../runtime/clock.js';
import { COMMANDS, OK } from './commands.js';
import { Keyspace, RedisError } from './keyspace.js';
import { evaluate, type Reply } from './lua-runtime.js';
import { memoryScripts } from './scripts.memory.generated.js';

/** The server's end of a connection. */
export interface Peer {
  /** As CLIENT ID has it; the server sets it. */
  id?: number;
  /** The connection that is told when a key changes that this one has read. */
  toldTo?: number | undefined;
  readonly classic: Set<string>;
  readonly sharded: Set<string>;
  /** When a command of this connection last changed something, for WAIT. */
  lastWriteMs: number;
  /** The commands that have arrived during a WAIT. */
  backlog: (() => void)[] | undefined;
  message(channel: string, payload: string): void;
  /** Keys have changed that another connection has read; undefined: all of them. */
  invalidated?(keys: readonly string[] | undefined): void;
  /** The server has closed the connection. */
  hungUp(): void;
}

export interface ServerOptions {
  /** The name by which clients show where they are connected to. */
  readonly name?: string;
  readonly replicaCount?: number;
  /** A number from 0 to 1, as `Math.random()` gives it. */
  readonly random?: () => number;
}

/** A day: a Redlock would not trust a server that has just started. */
const INITIAL_AGE_MS = 86_400_000;

const UNKNOWN_SCRIPT: Reply = { err: 'NOSCRIPT No matching script. Please use EVAL.' };

type ScriptName = keyof typeof scripts;

/** The scripts, by hash and by source. */
const byText = new Map<string, { readonly sha1: string; readonly name: ScriptName }>();
for (const [name, { sha1, source }] of Object.entries(scripts))
  for (const text of [sha1, source]) byText.set(text, { sha1, name: name as ScriptName });

export class MemoryServer {
  readonly clock: Clock;
  readonly name: string;
  readonly #replicaCount: number;
  readonly #peers = new Set<Peer>();
  #peerCount = 0;
  /** Who has read a key since it last changed, of those who want to be told. */
  readonly #readers = new Map<string, Set<Peer>>();
  /** The hashes of the scripts that the server knows: all, until it restarts, as of a server that has been in use. */
  readonly #known = new Set(Object.values(scripts).map(({ sha1 }) => sha1));
  readonly #keys: Keyspace;
  readonly #random: () => number;
  #runId: string;
  #startedAtMs: number;
  #isDown = false;
  #lostReplies = 0;
  /** How far the replicas are behind, in milliseconds. */
  lagMs = 0;

  constructor(clock: Clock, options: ServerOptions = {}) {
    const { name = 'MemoryRedis', replicaCount = 0, random = PROCESS_RANDOM } = options;
    this.clock = clock;
    this.name = name;
    this.#replicaCount = replicaCount;
    this.#random = random;
    this.#runId = newRunId(random);
    this.#startedAtMs = clock.wallMs() - INITIAL_AGE_MS;
    this.#keys = new Keyspace(replicaCount > 0, (keys) => {
      for (const key of keys) this.#changed(key);
    });
  }

  /** Its keys at present. */
  get keys(): Keyspace {
    this.#keys.nowUs = this.#nowUs;
    return this.#keys;
  }

  get peers(): ReadonlySet<Peer> {
    return this.#peers;
  }

  get connectionCount(): number {
    return this.#peers.size;
  }

  /** Returns whether the server accepts the connection. */
  accept(peer: Peer): boolean {
    peer.id = ++this.#peerCount;
    if (!this.#isDown) this.#peers.add(peer);
    return !this.#isDown;
  }

  /** The client has closed the connection. */
  leave(peer: Peer): void {
    this.#peers.delete(peer);
  }

  /** Runs a command that has arrived; after the end of its connection it does nothing. */
  take(peer: Peer, command: string, args: readonly string[], answer: (reply: Reply) => void): void {
    if (!this.#peers.has(peer)) return;
    if (peer.backlog) {
      peer.backlog.push(() => {
        this.take(peer, command, args, answer);
      });
      return;
    }
    const name = command.toUpperCase();
    if (name === 'WAIT') {
      this.#wait(peer, Number(args[0]), Number(args[1]), answer);
      return;
    }
    const reply = this.#execute(peer, name, args);
    if (this.#lostReplies > 0 && name.startsWith('EVAL') && reply !== UNKNOWN_SCRIPT) {
      this.#lostReplies--;
      this.#hangUp(peer);
    } else answer(reply);
  }

  /** Cuts all connections; no client can connect until `up()`. */
  down(): void {
    this.#isDown = true;
    this.hangUp();
  }

  up(): void {
    this.#isDown = false;
  }

  hangUp(): void {
    for (const peer of this.#peers) this.#hangUp(peer);
  }

  /** Forgets all scripts. */
  forgetScripts(): void {
    this.#known.clear();
  }

  /** The channels that have subscribers. */
  get channels(): string[] {
    return [...this.#peers].flatMap(({ classic, sharded }) => [...classic, ...sharded]);
  }

  /** Cuts the connection instead of answering, for the next so many scripts. */
  loseReplies(count: number): void {
    this.#lostReplies = count;
  }

  /** Makes it another server process, which is up. */
  restart(isEmpty: boolean): void {
    if (isEmpty) this.#keys.clear();
    this.#startedAtMs = this.clock.wallMs();
    this.#succeeded();
  }

  /** Lets a replica take over that misses the newest writes: so many, or those within its lag. */
  failOver(lost?: number): void {
    const { keys } = this;
    keys.undo(lost ?? keys.writesSince(keys.nowMs - this.lagMs));
    this.#succeeded();
  }

  #succeeded(): void {
    this.#isDown = false;
    this.#runId = newRunId(this.#random);
    this.#known.clear();
    this.#readers.clear();
    this.#peerCount = 0;
    this.hangUp();
  }

  #hangUp(peer: Peer): void {
    this.#peers.delete(peer);
    peer.hungUp();
  }

  get #nowUs(): number {
    return Math.floor(this.clock.wallMs() * 1_000);
  }

  #execute(peer: Peer, name: string, args: readonly string[]): Reply {
    let reply: Reply = null;
    const isChanged = this.#keys.run(this.#nowUs, () => {
      reply = answerOf(() => this.#run(peer, name, args));
    });
    if (isChanged) peer.lastWriteMs = this.#keys.nowMs;
    return reply;
  }

  #run(peer: Peer, name: string, args: readonly string[]): Reply {
    const [first = '', ...rest] = args;
    const isSubscriber = peer.classic.size + peer.sharded.size > 0;
    if (isSubscriber && name !== 'PING' && !name.endsWith('SUBSCRIBE'))
      return {
        err: `ERR Can't execute '${name.toLowerCase()}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context`,
      };
    switch (name) {
      case 'PING':
        return args.length > 0 ? first : { ok: 'PONG' };
      case 'CLIENT':
        return this.client(peer, ...args);
      case 'SELECT':
        return first === '0' ? OK : { err: 'ERR DB index is out of range' };
      case 'INFO':
        return this.#info();
      case 'EVAL':
        return this.#runScript(this.#learn(first).name, rest);
      case 'EVALSHA':
        if (!this.#known.has(first)) return UNKNOWN_SCRIPT;
        return this.#runScript(this.#learn(first).name, rest);
      case 'SUBSCRIBE':
      case 'SSUBSCRIBE':
        for (const channel of args) channelsOf(peer, name === 'SSUBSCRIBE').add(channel);
        return OK;
      case 'UNSUBSCRIBE':
      case 'SUNSUBSCRIBE':
        for (const channel of args) channelsOf(peer, name === 'SUNSUBSCRIBE').delete(channel);
        return OK;
      case 'FLUSHALL':
      case 'FLUSHDB':
        this.#readers.clear();
        for (const key of this.#keys.names) this.#keys.delete(key);
        for (const { toldTo } of this.#peers) this.invalidate(toldTo);
        return OK;
      case 'HGET': {
        const reply = answerOf(() => this.#call(name, args));
        if (peer.toldTo !== undefined) this.#readersOf(first).add(peer);
        return reply;
      }
      default:
        return this.#call(name, args);
    }
  }

  /** Answers CLIENT. */
  protected client(peer: Peer, what = '', ...[isOn, , id]: readonly string[]): Reply {
    if (what.toUpperCase() === 'ID') return peer.id ?? 0;
    if (what.toUpperCase() !== 'TRACKING') return OK; // SETNAME
    const toldTo = isOn === 'ON' ? Number(id) : undefined;
    if (toldTo !== undefined && ![...this.#peers].some((each) => each.id === toldTo))
      return { err: 'ERR The client ID you want redirect to does not exist' };
    peer.toldTo = toldTo;
    return OK;
  }

  #readersOf(key: string): Set<Peer> {
    let readers = this.#readers.get(key);
    if (!readers) this.#readers.set(key, (readers = new Set()));
    return readers;
  }

  /** Tells those who have read the key and are still there, once. */
  #changed(key: string): void {
    const readers = this.#readers.get(key);
    if (!readers) return;
    this.#readers.delete(key);
    for (const reader of readers)
      if (this.#peers.has(reader)) this.invalidate(reader.toldTo, [key]);
  }

  /** Tells the connection of this id, if it listens. */
  protected invalidate(id: number | undefined, keys?: readonly string[]): void {
    for (const peer of this.#peers)
      if (peer.id === id && peer.classic.has(INVALIDATIONS)) peer.invalidated?.(keys);
  }

  /** The script of this hash or source, which EVALSHA knows from now on. */
  #learn(text = ''): { readonly sha1: string; readonly name: ScriptName } {
    const script = byText.get(text);
    if (!script) throw new RedisError('ERR MemoryRedis runs no script but those of holdfast');
    this.#known.add(script.sha1);
    return script;
  }

  #runScript(name: ScriptName, [keyCount, ...given]: readonly string[]): Reply {
    const keys = given.splice(0, Number(keyCount));
    return evaluate(memoryScripts[name], keys, given, ([command = '', ...args]) =>
      answerOf(() => this.#call(command.toUpperCase(), args)),
    );
  }

  /** Runs a command that a script may call, too. */
  #call(name: string, args: readonly string[]): Reply {
    const [first = '', second = ''] = args;
    switch (name) {
      case 'PUBLISH':
      case 'SPUBLISH': {
        const listeners = this.#listeners(first, name === 'SPUBLISH');
        for (const peer of listeners) peer.message(first, second);
        return listeners.length;
      }
      case 'PUBSUB': // NUMSUB, SHARDNUMSUB
        return args
          .slice(1)
          .flatMap((each) => [each, this.#listeners(each, first === 'SHARDNUMSUB').length]);
      default: {
        const command = COMMANDS[name];
        if (!command) throw new RedisError(`ERR unknown command '${name.toLowerCase()}'`);
        return command(this.#keys, ...args);
      }
    }
  }

  #listeners(channel: string, isSharded: boolean): Peer[] {
    return [...this.#peers].filter((peer) => channelsOf(peer, isSharded).has(channel));
  }

  #info(): string {
    const ageMs = this.clock.wallMs() - this.#startedAtMs;
    const offset = this.#keys.writeCount;
    const behind = offset - this.keys.writesSince(this.#keys.nowMs - this.lagMs);
    const replicas = Array.from(
      { length: this.#replicaCount },
      (_, i) =>
        `slave${String(i)}:ip=memory,port=${String(i)},state=online,offset=${String(behind)},lag=0`,
    );
    return [
      'redis_version:7.4.0',
      `run_id:${this.#runId}`,
      `uptime_in_seconds:${String(Math.floor(ageMs / 1_000))}`,
      'role:master',
      `connected_slaves:${String(this.#replicaCount)}`,
      ...replicas,
      `master_repl_offset:${String(offset)}`,
      '',
    ].join('\r\n');
  }

  /** Reads nothing more from the connection until enough replicas have its last write, or the time is over. */
  #wait(peer: Peer, count: number, limitMs: number, answer: (reply: Reply) => void): void {
    const leftMs = (): number => peer.lastWriteMs + this.lagMs - this.clock.wallMs();
    const done = (): void => {
      const backlog = peer.backlog ?? [];
      peer.backlog = undefined;
      answer(leftMs() <= 0 ? this.#replicaCount : 0);
      for (const take of backlog) take();
    };
    const waitMs = count > this.#replicaCount ? limitMs : Math.min(leftMs(), limitMs);
    if (count === 0 || waitMs <= 0) {
      done();
      return;
    }
    peer.backlog = [];
    this.clock.setTimer(done, waitMs).unref();
  }
}

function channelsOf(peer: Peer, isSharded: boolean): Set<string> {
  return isSharded ? peer.sharded : peer.classic;
}

function answerOf(work: () => Reply): Reply {
  try {
    return work();
  } catch (error) {
    if (error instanceof RedisError) return { err: error.message };
    throw error;
  }
}

function newRunId(random: () => number): string {
  const digits = Array.from({ length: 40 }, () => Math.floor(16 * random()).toString(16));
  return digits.join('');
}
