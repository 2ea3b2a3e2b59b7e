// The servers of a simulation, and what lies between them and the clients. Every delivery takes a while, and may be lost with its connection. A server is
// in memory, with a clock of its own: it may stand still, be down, forget, and get what is lost, doubled or late.
import { INVALIDATIONS } from '../../src/redis/port.js';
import type { Network, Way } from '../../src/testing/connection.js';
import type { Reply } from '../../src/testing/lua-runtime.js';
import type * as Testing from '../../src/testing/server.js';
import { FORCE_SHA1S } from '../chaos/nemeses/network.js';
import type { Random } from '../chaos/random.js';
import { loaded } from './library.js';
import { SimProcess, type Machine, type VirtualTime } from './time.js';

const { MemoryServer } = await loaded<typeof Testing>('testing/server');

type Peer = Testing.Peer;
type Take = Testing.MemoryServer['take'];

/** Which way something goes. */
export type Direction = Way['to'];

/** How a command is treated on its way. */
export type Treatment = 'lose' | 'lose reply' | 'cut' | 'double' | 'late';

/** All connections of one client, over all who were open in its place, to one server. */
export class Link {
  readonly server: SimServer;
  readonly random: Random;
  readonly #time: VirtualTime;
  readonly pipes = new Set<Pipe>();
  /** What is added to each delivery, in milliseconds. */
  readonly delayMs = { server: 0, client: 0 };
  /** What is held back; `onlySubscribers`: of no other connection. */
  swallowed: { readonly to: readonly Direction[]; readonly onlySubscribers: boolean } | undefined;
  isRefusing = false;
  /** How each command is treated; undefined: well. */
  treat: ((command: string, args: readonly string[]) => Treatment | undefined) | undefined;
  /** After how many milliseconds each copy of a message comes; undefined: it comes once, at once. */
  treatMessage: (() => readonly number[]) | undefined;

  constructor(time: VirtualTime, server: SimServer, random: Random) {
    this.#time = time;
    this.server = server;
    this.random = random;
  }

  pipe(process: SimProcess, isSubscriber: boolean, client: string): Pipe {
    const pipe = new Pipe(this.#time, this, process, isSubscriber, client);
    this.pipes.add(pipe);
    return pipe;
  }

  /** The connections on which the server is asked to tell of changes, each with the one on which it does. */
  get pairs(): readonly (readonly [reader: Pipe, hearer: Pipe])[] {
    const pipes = [...this.pipes].filter(({ peer }) => peer && this.server.peers.has(peer));
    return pipes.flatMap((reader) =>
      pipes
        .filter(({ peer }) => peer!.id === reader.peer!.toldTo && peer!.classic.has(INVALIDATIONS))
        .map((hearer) => [reader, hearer] as const),
    );
  }

  /** Whether this client is told of changes, and nothing is in the way of that. */
  isTelling(client: string): boolean {
    const { server, delayMs, swallowed, treat, treatMessage } = this;
    if (swallowed || treat || treatMessage || delayMs.server + delayMs.client > 0) return false;
    if (server.process.isStopped || server.tells !== 'changes') return false;
    return this.pairs.some(
      ([reader, hearer]) => reader.client === client && !reader.isSilent && !hearer.isSilent,
    );
  }

  /** What was lost of what a connection tells nobody finds out: then it ends. */
  cutHearers(): void {
    for (const [, hearer] of this.pairs) hearer.cut();
  }

  cut(): void {
    for (const pipe of this.pipes) pipe.cut();
  }

  /** The server takes all connections for gone, and the client hears nothing of it. */
  halfOpen(): void {
    for (const pipe of this.pipes) if (pipe.peer) this.server.leave(pipe.peer);
  }

  /** Connections on which nothing comes any more end. */
  cutSilent(): void {
    for (const pipe of this.pipes) if (pipe.isSilent) pipe.cut();
  }

  /** The client is no more. */
  drop(): void {
    this.halfOpen();
    for (const pipe of this.pipes) pipe.silence();
    this.pipes.clear();
  }

  /** What was held back comes now, or is lost with its connections. */
  heal(isForwarded: boolean): void {
    this.swallowed = undefined;
    for (const pipe of this.pipes) {
      if (isForwarded) pipe.forward();
      else pipe.cut();
    }
  }
}

/** One connection: what is given for one direction arrives in that order. */
export class Pipe implements Network {
  readonly link: Link;
  readonly #process: SimProcess;
  readonly #isSubscriber: boolean;
  /** Whose it is. */
  readonly client: string;
  /** The server's end of it, once it was accepted. */
  peer: Peer | undefined;
  readonly #time: VirtualTime;
  /** One direction of the connection, by which it can be cut; there is one as soon as something was sent. */
  #way: Way | undefined;
  readonly #lastMs = { server: 0, client: 0 };
  readonly #held: { readonly to: Direction; readonly deliver: () => void }[] = [];
  #state: 'whole' | 'silent' | 'cut' = 'whole';
  /** Deliveries are numbered; those up to this one are lost. */
  #sentCount = 0;
  #lostCount = 0;

  constructor(
    time: VirtualTime,
    link: Link,
    process: SimProcess,
    isSubscriber: boolean,
    client: string,
  ) {
    this.#time = time;
    this.link = link;
    this.#process = process;
    this.#isSubscriber = isSubscriber;
    this.client = client;
  }

  get isSilent(): boolean {
    return this.#state === 'silent';
  }

  carry(way: Way, deliver: () => void): void {
    this.#way ??= way;
    if (this.#state !== 'whole') return;
    const { to } = way;
    const { swallowed } = this.link;
    const isHeld =
      this.#held.some((each) => each.to === to) ||
      (swallowed?.to.includes(to) && (this.#isSubscriber || !swallowed.onlySubscribers));
    if (isHeld) this.#held.push({ to, deliver });
    else this.#send(to, deliver);
  }

  forward(): void {
    for (const { to, deliver } of this.#held.splice(0)) this.#send(to, deliver);
  }

  /** What is on its way is lost. The server hears of it at once, and the client as soon as its process runs. */
  cut(): void {
    if (this.#state === 'cut') return;
    this.silence();
    this.#state = 'cut';
    this.link.pipes.delete(this);
    if (this.peer) this.link.server.leave(this.peer);
    this.#time.at(this.#time.nowMs, () => {
      this.#process.enter(() => this.#way?.cut());
    });
  }

  /** Nothing comes any more, in either direction, and nobody is told. */
  silence(): void {
    this.#held.length = 0;
    this.#lostCount = this.#sentCount;
    this.#state = 'silent';
  }

  #send(to: Direction, deliver: () => void): void {
    const { random, delayMs } = this.link;
    // Mostly a fraction of a millisecond; now and then a packet is sent again.
    const travelMs = 0.02 + 0.3 * random.next() ** 3 + (random.chance(0.002) ? 40 : 0);
    const atMs = Math.max(this.#lastMs[to], this.#time.nowMs + travelMs + delayMs[to]);
    this.#lastMs[to] = atMs;
    const number = ++this.#sentCount;
    const arrive = (): void => {
      if (number > this.#lostCount) this.#arrived(to, deliver);
    };
    this.#time.at(atMs, () => {
      if (to === 'server') this.link.server.enter(arrive);
      else this.#process.enter(arrive);
    });
  }

  #arrived(to: Direction, deliver: () => void): void {
    if (to === 'client') deliver();
    else this.link.server.receive(this, deliver);
  }
}

/** Who asks besides all clients. */
const nobody = (): Peer => ({
  classic: new Set(),
  sharded: new Set(),
  lastWriteMs: -Infinity,
  backlog: undefined,
  message: () => undefined,
  hungUp: () => undefined,
});

export class SimServer extends MemoryServer {
  readonly index: number;
  readonly process: SimProcess;
  readonly machine: Machine;
  readonly #time: VirtualTime;
  /** The connection by which something has just arrived. */
  #via: Pipe | undefined;
  #isDown = false;
  /** Whether it tells of changes who asks for that, refuses to, or says that it will and does not. */
  tells: 'changes' | 'refusals' | 'nothing' = 'changes';
  /** How many commands it has run. */
  commandCount = 0;
  /** For how long a command may be under way that is doubled, or late, in milliseconds. */
  readonly #latestMs: number;
  readonly #trace: (what: string) => void;

  constructor(
    index: number,
    time: VirtualTime,
    machine: Machine,
    random: () => number,
    latestMs: number,
    trace: (what: string) => void,
  ) {
    const process = new SimProcess(time, machine);
    super(process.clock, { random, replicaCount: 1 }); // a replica may take over, without the newest writes
    this.machine = machine;
    this.index = index;
    this.process = process;
    this.#time = time;
    this.#latestMs = latestMs;
    this.#trace = trace;
  }

  get isDown(): boolean {
    return this.#isDown;
  }

  /** Runs what has arrived, as soon as the server runs. */
  enter(run: () => void): void {
    this.process.enter(run);
  }

  receive(pipe: Pipe, deliver: () => void): void {
    this.#via = pipe;
    deliver();
    this.#via = undefined;
  }

  override accept(peer: Peer): boolean {
    const pipe = this.#via;
    if (pipe) {
      if (pipe.link.isRefusing) return false;
      pipe.peer = peer;
      const treated = (deliver: () => void): void => {
        for (const delayMs of pipe.link.treatMessage?.() ?? [0])
          if (delayMs === 0) deliver();
          else this.#time.at(this.#time.nowMs + delayMs, deliver);
      };
      const message = peer.message.bind(peer);
      peer.message = (channel, payload) => {
        treated(() => {
          message(channel, payload);
        });
      };
      const invalidated = peer.invalidated?.bind(peer);
      peer.invalidated = (keys) => {
        treated(() => invalidated?.(keys));
      };
    }
    return super.accept(peer);
  }

  override take(...[peer, command, args, answer]: Parameters<Take>): void {
    const pipe = this.#via;
    const treatment = pipe?.link.treat?.(command, args);
    this.#trace(
      `${this.index} ${command} ${args.slice(0, 1).join('').slice(0, 8)} ${args.slice(1).join(' ')} ${treatment ?? ''}`,
    );
    const run = (answered: typeof answer): void => {
      this.commandCount++;
      super.take(peer, command, args, answered);
    };
    if (!pipe || !treatment) {
      run(answer);
      return;
    }
    const isCut = pipe.link.random.chance(0.5);
    const goes = (): void => {
      if (isCut) pipe.cut();
      else pipe.silence();
    };
    switch (treatment) {
      case 'lose':
        goes();
        return;
      case 'lose reply':
        run(() => undefined);
        goes();
        return;
      case 'cut':
        run(answer);
        pipe.cut();
        return;
      case 'double':
        run(answer);
        this.#again(pipe, command, args);
        return;
      case 'late':
        this.#again(pipe, command, args);
        goes();
    }
  }

  /** Asks past all clients, and past everything that goes wrong. */
  ask(command: string, ...args: string[]): unknown {
    const peer = nobody();
    let answer: unknown;
    if (!super.accept(peer)) return undefined;
    super.take(peer, command, args, (reply) => {
      answer = reply;
    });
    this.leave(peer);
    return answer;
  }

  /** From now on. What it does not tell in between nobody finds out: then the connections end that should have been told. */
  tell(tells: SimServer['tells']): void {
    this.tells = tells;
    for (const peer of [...this.peers]) {
      if (peer.toldTo === undefined) continue;
      this.leave(peer);
      peer.hungUp();
    }
  }

  protected override client(peer: Peer, what = '', ...more: readonly string[]): Reply {
    if (this.tells === 'refusals' && what.toUpperCase() === 'TRACKING')
      return { err: "NOPERM this user has no permissions to run the 'client|tracking' command" };
    return super.client(peer, what, ...more);
  }

  protected override invalidate(id: number | undefined, keys?: readonly string[]): void {
    if (this.tells === 'changes') super.invalidate(id, keys);
  }

  override down(): void {
    this.#isDown = true;
    super.down();
  }

  override up(): void {
    this.#isDown = false;
    super.up();
  }

  /** A copy comes later, over another connection. */
  #again(pipe: Pipe, command: string, args: readonly string[]): void {
    if (!mayRunTwice(command, args)) return;
    const inMs = pipe.link.random.between(0, this.#latestMs);
    this.#time.at(this.#time.nowMs + inMs, () => {
      this.enter(() => {
        this.#trace(`${this.index} again ${command} ${args.join(' ').slice(0, 300)}`);
        this.ask(command, ...args);
      });
    });
  }
}

/** A script may run when its connection is gone, but forceUnlock() frees whoever holds the lock when it runs. */
function mayRunTwice(command: string, [script = '']: readonly string[]): boolean {
  return command === 'evalsha' && !FORCE_SHA1S.includes(script);
}
