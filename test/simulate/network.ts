// What lies between the clients and the servers of a simulation: every delivery takes a while, and may be lost with its connection.
import type { Network, Way } from '../../src/testing/connection.js';
import type { Random } from '../chaos/random.js';
import type { SimServer } from './server.js';
import type { SimProcess, VirtualTime } from './time.js';

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

  pipe(process: SimProcess, isSubscriber: boolean): Pipe {
    const pipe = new Pipe(this.#time, this, process, isSubscriber);
    this.pipes.add(pipe);
    return pipe;
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
  /** The server's end of it, once it was accepted. */
  peer: Parameters<SimServer['accept']>[0] | undefined;
  readonly #time: VirtualTime;
  readonly #lastMs = { server: 0, client: 0 };
  readonly #held: { readonly to: Direction; readonly deliver: () => void }[] = [];
  #state: 'whole' | 'silent' | 'cut' = 'whole';
  /** Deliveries are numbered; those up to this one are lost. */
  #sentCount = 0;
  #lostCount = 0;

  constructor(time: VirtualTime, link: Link, process: SimProcess, isSubscriber: boolean) {
    this.#time = time;
    this.link = link;
    this.#process = process;
    this.#isSubscriber = isSubscriber;
  }

  get isSilent(): boolean {
    return this.#state === 'silent';
  }

  carry({ to }: Way, deliver: () => void): void {
    if (this.#state !== 'whole') return;
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

  /** What is on its way is lost. Both ends hear of it. */
  cut(): void {
    if (this.#state === 'cut') return;
    this.#state = 'whole';
    const { server } = this.link;
    this.#held.length = 0;
    this.#lostCount = this.#sentCount;
    // The reset is delivered by the connection itself, and nothing else is.
    if (this.peer) server.hangUpOn(this.peer);
    this.#state = 'cut';
    this.link.pipes.delete(this);
  }

  /** Nothing comes any more, in either direction, and nobody is told. */
  silence(): void {
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
