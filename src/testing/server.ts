// One server in memory: its keys, its connections, its channels, its replicas and its failures. A command runs when it arrives here.

import { scripts } from '../redis/scripts.generated.js';
import { PROCESS_RANDOM, type Clock } from '../runtime/clock.js';
import { COMMANDS, OK } from './commands.js';
import { Keyspace, RedisError } from './keyspace.js';
import { evaluate, type Reply } from './lua-runtime.js';
import { memoryScripts } from './scripts.memory.generated.js';

/** The server's end of a connection. */
export interface Peer {
  readonly classic: Set<string>;
  readonly sharded: Set<string>;
  /** When a command of this connection last changed something, for WAIT. */
  lastWriteMs: number;
  /** The commands that have arrived during a WAIT. */
  backlog: (() => void)[] | undefined;
  message(channel: string, payload: string): void;
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
    this.#keys = new Keyspace(replicaCount > 0);
  }

  /** Its keys at present. */
  get keys(): Keyspace {
    this.#keys.nowUs = this.#nowUs;
    return this.#keys;
  }

  get connectionCount(): number {
    return this.#peers.size;
  }

  /** Returns whether the server accepts the connection. */
  accept(peer: Peer): boolean {
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
    switch (name) {
      case 'PING':
        return args.length > 0 ? first : { ok: 'PONG' };
      case 'CLIENT': // SETNAME
        return OK;
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
      default:
        return this.#call(name, args);
    }
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
