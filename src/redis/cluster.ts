// A session with a cluster: which master has which slots, and a connection to each that is needed. A node is an address with one wire: it is made
// when something is to be sent, and thrown away, node and all, when the wire ends.

import type { Timer } from '../runtime/clock.js';
import {
  describe,
  failureKind,
  isClusterDown,
  isMereLoss,
  isReply,
  isUnreachable,
  NodeGoneError,
  noneReached,
  redirectionOf,
  replyError,
} from './failure.js';
import { hashTag } from './keys.js';
import { addressIn, textOf, type Argument, type Sender, type Target } from './port.js';
import { backOffMs, type Session, type SessionHeard, type Surroundings } from './session.js';
import { readSlots, SLOT_COUNT, slotOf, UNNAMED_NODES, type SlotMap } from './slots.js';
import { SilenceError, ignore, unsent, Wire } from './wire.js';

export type ClusterTarget = Extract<Target, { kind: 'cluster' }>;

const MOST_REDIRECTIONS = 16;
/** How often slots are looked up at most. */
const REFRESH_PAUSE_MS = 250;
/** How long one node is waited for before the next is asked, too. */
const STAGGER_MS = 200;
/** How soon a node that has left the cluster is looked at again, if it owes answers. */
const LEAVING_MS = 50;
const NO_CLUSTER = 'cluster support disabled';
/** Commands without a key: any node answers them. */
const KEYLESS = new Set(['info', 'ping', 'pubsub', 'script']);

/** What a cluster tells those who watch it. */
export interface Watcher {
  /** Slots were looked up, or one was found elsewhere. */
  readonly refreshed: (cluster: Cluster) => void;
  /** The connection to the node there is gone, or the node is no master any more. */
  readonly nodeLost: (address: string) => void;
}

/** - `opening`: nobody has answered yet which node has which slots */
type State =
  | { readonly kind: 'opening' }
  | { readonly kind: 'ready'; readonly slots: SlotMap }
  | { readonly kind: 'ended' };

export class Cluster implements Session {
  readonly address = undefined;
  readonly isCluster = true;
  readonly #surroundings: Surroundings;
  readonly #target: ClusterTarget;
  readonly #watcher: Watcher;
  readonly #heard: SessionHeard;
  readonly #nodes = new Map<string, Node>();
  /** Nodes that are no masters any more, until they have answered what they were sent. */
  readonly #leaving = new Set<Node>();
  /** The nodes that could not be reached: many commands ask for them, and must not try again at once. */
  readonly #gone = new Map<string, GoneNode>();
  #state: State = { kind: 'opening' };
  #isLookingUp = false;
  #lookedUpAtMs = -Infinity;
  #refreshTimer: Timer | undefined;
  #refreshAtMs = Infinity;

  constructor(
    surroundings: Surroundings,
    target: ClusterTarget,
    watcher: Watcher,
    heard: SessionHeard,
  ) {
    this.#surroundings = surroundings;
    this.#target = target;
    this.#watcher = watcher;
    this.#heard = heard;
    queueMicrotask(() => void this.#lookUpSlots());
  }

  get isReady(): boolean {
    return this.#state.kind === 'ready';
  }

  get owesAnswer(): boolean {
    for (const node of this.#nodes.values()) if (node.owesAnswer) return true;
    return false;
  }

  get masters(): readonly string[] {
    return this.#state.kind === 'ready' ? this.#state.slots.masters : [];
  }

  masterOf(slot: number): string | undefined {
    return this.#state.kind === 'ready' ? this.#state.slots.masterBySlot[slot] : undefined;
  }

  /** The address at which we reach the node that the node `by` calls by this one. */
  reachedAt(announced: string, by: string): string {
    // Redis leaves out the host where it is that of the node that was asked.
    const full = announced.startsWith(':')
      ? by.slice(0, by.lastIndexOf(':')) + announced
      : announced;
    const at = this.#target.remap(full);
    return at ? textOf(at) : full;
  }

  /** Whether a master that has slots cannot be reached. */
  get isDegraded(): boolean {
    return this.#gone.size > 0 && this.unreachable.size > 0;
  }

  /** Why masters that have slots cannot be reached, by address. */
  get unreachable(): ReadonlyMap<string, Error> {
    const entries = [...this.#gone].filter(([address]) => this.masters.includes(address));
    return new Map(entries.map(([address, { reason }]) => [address, reason]));
  }

  /** The node there; undefined: it could not be reached a moment ago, or the session is over. */
  node(address: string): Node | undefined {
    if (this.#state.kind === 'ended') return undefined;
    const known = this.#nodes.get(address);
    if (known) return known;
    const { clock } = this.#surroundings;
    if ((this.#gone.get(address)?.retryAtMs ?? 0) > clock.nowMs()) return undefined;
    const node = new Node(this.#surroundings, address, {
      ready: () => {
        this.#forgetGone(address);
      },
      ended: (reason) => {
        this.#nodeEnded(node, reason);
      },
      // Such a node redirects nobody to who has its slots now, and its connection is well.
      isDown: this.refresh,
      hindered: this.#heard.hurt,
    });
    this.#nodes.set(address, node);
    return node;
  }

  /** The node that has a key, as far as is known; it follows no redirection. */
  nodeOf(key: string): Node | undefined {
    const master = this.masterOf(slotOf(hashTag(key)));
    return master === undefined ? undefined : this.node(master);
  }

  readonly send: Sender['send'] = (command, args, read, failed) => {
    const key = keyOf(command, args);
    if (key === undefined) {
      const node = this.#anyNode();
      return node ? node.send(command, args, read, failed) : this.#unsent(undefined, failed);
    }
    return this.#route(this.masterOf(slotOf(hashTag(key))), { command, args, read, failed });
  };

  gather(): void {
    // each node does by itself
  }

  flush(): void {
    for (const node of this.#nodes.values()) node.flush();
  }

  /** A node has refused with these words. MOVED says where one slot is; where the others are by now has to be asked. */
  learnFrom(error: Error, by: string): void {
    const to = redirectionOf(error);
    if (to?.kind !== 'MOVED') return;
    const address = this.reachedAt(to.address, by);
    this.refresh();
    const { slot } = to;
    if (!(slot < SLOT_COUNT) || this.#state.kind !== 'ready' || this.masterOf(slot) === address)
      return;
    const { slots } = this.#state;
    const masters = slots.masters.includes(address) ? slots.masters : [...slots.masters, address];
    this.#state = {
      kind: 'ready',
      slots: { masters, masterBySlot: slots.masterBySlot.with(slot, address) },
    };
    this.#watcher.refreshed(this);
  }

  /** Looks up anew which node has which slots: soon, and not too often. */
  readonly refresh = (): void => {
    if (this.#state.kind !== 'ready') return;
    const nextMs = this.#lookedUpAtMs + REFRESH_PAUSE_MS - this.#surroundings.clock.nowMs();
    this.#refreshIn(this.#isLookingUp ? REFRESH_PAUSE_MS : Math.max(nextMs, 0));
  };

  end(reason?: Error): void {
    if (this.#isEnded()) return;
    this.#state = { kind: 'ended' };
    const { clock } = this.#surroundings;
    clock.clearTimer(this.#refreshTimer);
    for (const { timer } of this.#gone.values()) clock.clearTimer(timer);
    for (const node of [...this.#nodes.values(), ...this.#leaving]) node.end();
    queueMicrotask(() => {
      this.#heard.ended(reason);
    });
  }

  /** Sends to the node there, and follows redirections. */
  #route<T>(address: string | undefined, call: Call<T>, isAsking = false, count = 0): Promise<T> {
    const node = address === undefined ? undefined : this.node(address);
    if (!node) return this.#unsent(address, call.failed);
    return node.send(
      call.command,
      call.args,
      call.read,
      (error) => {
        if (error instanceof NodeGoneError) return this.#unsent(node.address, call.failed);
        const to = redirectionOf(error);
        if (!to) return call.failed(error);
        this.learnFrom(error, node.address);
        if (count === MOST_REDIRECTIONS)
          return call.failed(replyError(error.message, { cause: error }));
        const at = this.reachedAt(to.address, node.address);
        return this.#route(at, call, to.kind === 'ASK', count + 1);
      },
      isAsking,
    );
  }

  /** The node cannot be reached. If slots were looked up since that was found, and are still there, waiting for a moment does not help. */
  #unsent<T>(address: string | undefined, failed: (error: Error) => T | Promise<T>): Promise<T> {
    this.refresh();
    const found = address === undefined ? undefined : this.#gone.get(address);
    if (!found || address === undefined)
      return unsent('the node that has the slot is not known', failed);
    const why = `the node ${address} of the cluster cannot be reached: ${describe(found.reason)}`;
    return unsent(found.isConfirmed ? new NodeGoneError(why) : why, failed);
  }

  /** A node that is connected, or else any master that may be reached. */
  #anyNode(): Node | undefined {
    const connected = this.masters.find((address) => this.#nodes.get(address)?.isReady);
    if (connected !== undefined) return this.node(connected);
    for (const address of this.#shuffled(this.masters)) {
      const node = this.node(address);
      if (node) return node;
    }
    return undefined;
  }

  #nodeEnded(node: Node, reason: Error | undefined): void {
    const { address } = node;
    if (this.#leaving.delete(node) || this.#nodes.get(address) !== node) return;
    this.#nodes.delete(address);
    if (this.#isEnded()) return;
    const { clock, random } = this.#surroundings;
    const attempt = (this.#gone.get(address)?.attempt ?? 0) + 1;
    this.#forgetGone(address);
    const delayMs = backOffMs(attempt, random);
    const gone: GoneNode = {
      attempt,
      retryAtMs: clock.nowMs() + delayMs,
      reason: reason ?? new Error('it closed the connection'),
      isConfirmed: attempt > 1,
      // Whether it is back is to be known also while nobody needs it.
      timer: clock.setTimer(() => {
        if (this.#gone.get(address) !== gone || !this.masters.includes(address)) return;
        gone.retryAtMs = 0;
        this.node(address);
      }, delayMs),
    };
    this.#gone.set(address, gone);
    if (this.#state.kind !== 'ready') return;
    if (reason && !isMereLoss(reason)) this.#heard.hurt(ofNode(reason, address));
    this.#watcher.nodeLost(address);
    this.refresh();
  }

  #forgetGone(address: string): void {
    this.#surroundings.clock.clearTimer(this.#gone.get(address)?.timer);
    this.#gone.delete(address);
  }

  #refreshIn(delayMs: number): void {
    const { clock } = this.#surroundings;
    const atMs = clock.nowMs() + delayMs;
    if (atMs >= this.#refreshAtMs) return;
    clock.clearTimer(this.#refreshTimer);
    this.#refreshAtMs = atMs;
    this.#refreshTimer = clock.setTimer(() => {
      this.#refreshAtMs = Infinity;
      if (this.#isLookingUp) this.#refreshIn(REFRESH_PAUSE_MS);
      else void this.#lookUpSlots();
    }, delayMs);
  }

  /** Asks one node after the other, each a little after the former, until one has answered. If none does, the session ends. */
  async #lookUpSlots(): Promise<void> {
    const { clock } = this.#surroundings;
    const startup = this.#target.startup.map(textOf);
    // Masters in random order, connected or not: one that is connected may be the one that knows nothing new.
    const candidates = new Set([...this.#shuffled(this.masters), ...this.#shuffled(startup)]);
    const lookUp: LookUp = { isFound: false, said: [] };
    const asked = new Set<Promise<void>>();
    this.#isLookingUp = true;
    for (const address of candidates) {
      const answer = this.#ask(address, lookUp).finally(() => asked.delete(answer));
      asked.add(answer);
      let timer: Timer | undefined;
      const late = new Promise<void>((resolve) => (timer = clock.setTimer(resolve, STAGGER_MS)));
      await Promise.race([...asked, late]);
      clock.clearTimer(timer);
      if (lookUp.isFound || this.#isEnded()) break;
    }
    while (!lookUp.isFound && asked.size > 0) await Promise.race(asked);
    this.#isLookingUp = false;
    this.#lookedUpAtMs = clock.nowMs();
    if (!lookUp.isFound) this.end(explained(lookUp.said, startup));
    else if (this.#target.refreshMs > 0 && !this.#isEnded())
      this.#refreshIn(this.#target.refreshMs);
  }

  // (A method, since the state changes while something is awaited.)
  #isEnded(): boolean {
    return this.#state.kind === 'ended';
  }

  /** Asks one node for the slots. What is answered after another one was heard is not newer than that. */
  async #ask(address: string, lookUp: LookUp): Promise<void> {
    const gone = this.#gone.get(address);
    if (gone) gone.retryAtMs = 0; // also one that could not be reached a moment ago: there may be no other
    await this.node(address)
      ?.send(
        'cluster',
        ['slots'],
        (reply) => {
          if (!lookUp.isFound) this.#learn(reply, address, lookUp);
        },
        (error) => {
          throw this.#gone.get(address)?.reason ?? error;
        },
      )
      .catch((error: unknown) => lookUp.said.push(error as Error));
  }

  /** @throws Error the reply is of no help */
  #learn(reply: unknown, by: string, lookUp: LookUp): void {
    const slots = readSlots(reply, (announced) => this.reachedAt(announced, by));
    if (this.#state.kind === 'ended') return;
    lookUp.isFound = true;
    const isFirst = this.#state.kind === 'opening';
    this.#state = { kind: 'ready', slots };
    for (const [address, gone] of this.#gone) {
      if (slots.masters.includes(address)) gone.isConfirmed = true;
      else this.#forgetGone(address);
    }
    for (const node of [...this.#nodes.values()])
      if (!slots.masters.includes(node.address)) this.#leave(node);
    if (isFirst) this.#heard.ready();
    this.#watcher.refreshed(this);
  }

  /** It is no master any more: it is sent nothing new, and is left when it has answered. */
  #leave(node: Node): void {
    this.#nodes.delete(node.address);
    this.#leaving.add(node);
    this.#watcher.nodeLost(node.address);
    const { clock } = this.#surroundings;
    const look = (): void => {
      if (!this.#leaving.has(node)) return;
      if (node.owesAnswer) {
        clock.setTimer(look, LEAVING_MS);
        return;
      }
      this.#leaving.delete(node);
      node.end();
    };
    queueMicrotask(look); // it may be the one whose answer is being read
  }

  #shuffled<T>(list: readonly T[]): T[] {
    return list
      .map((each) => ({ each, order: this.#surroundings.random() }))
      .sort((one, other) => one.order - other.order)
      .map(({ each }) => each);
  }
}

/** A command on its way through the cluster. */
interface Call<T> {
  readonly command: Lowercase<string>;
  readonly args: readonly Argument[];
  readonly read: (reply: unknown) => T;
  readonly failed: (error: Error) => T | Promise<T>;
}

interface LookUp {
  isFound: boolean;
  /** Why those who were asked are of no help. */
  readonly said: Error[];
}

/** A node that could not be reached. */
interface GoneNode {
  readonly attempt: number;
  retryAtMs: number;
  readonly reason: Error;
  /** Whether the cluster has said since then that it still has slots. */
  isConfirmed: boolean;
  readonly timer: Timer;
}

interface NodeHeard {
  ready(): void;
  ended(reason: Error | undefined): void;
  /** It answers, but serves nobody (CLUSTERDOWN). */
  isDown(): void;
  /** It does not permit what it must, while others may. */
  hindered(error: Error): void;
}

/** One node of a cluster: what is sent before its wire is ready waits there, in order. It follows no redirection. */
export class Node implements Sender {
  readonly address: string;
  readonly #wire: Wire;
  readonly #heard: NodeHeard;
  /** Called when the wire is ready; or, with false, when it never will be. */
  #waiting: ((isReady: boolean) => void)[] = [];
  #hasEnded = false;

  constructor(surroundings: Surroundings, address: string, heard: NodeHeard) {
    this.address = address;
    this.#heard = heard;
    this.#wire = new Wire(surroundings, addressIn(address), 'commands', {
      ready: () => {
        heard.ready();
        this.#settle(true);
      },
      ended: (reason) => {
        this.#hasEnded = true;
        heard.ended(reason); // first: who is refused now looks where to go instead
        this.#settle(false);
      },
    });
  }

  get isReady(): boolean {
    return this.#wire.isReady;
  }

  get owesAnswer(): boolean {
    return this.#wire.owesAnswer || this.#waiting.length > 0;
  }

  /** `isAsking`: the slot is only on its way to this node, which runs the command all the same after an ASKING. */
  send<T>(
    command: Lowercase<string>,
    args: readonly Argument[],
    read: (reply: unknown) => T,
    failed: (error: Error) => T | Promise<T>,
    isAsking = false,
  ): Promise<T> {
    const gone = (): Promise<T> =>
      unsent(new NodeGoneError(`not connected to ${this.address}`), failed);
    if (this.#hasEnded) return gone();
    if (!this.isReady)
      return new Promise<T>((resolve) => {
        this.#waiting.push((isReady) => {
          resolve(isReady ? this.send(command, args, read, failed, isAsking) : gone());
        });
      });
    if (isAsking) this.#asking();
    return this.#wire.send(command, args, read, (error) => {
      if (isClusterDown(error)) this.#heard.isDown();
      return failed(error);
    });
  }

  gather(): void {
    this.#wire.gather();
  }

  flush(): void {
    this.#wire.flush();
  }

  /** Sends each command with an ASKING in front of it. */
  get asking(): Sender {
    return {
      send: (command, args, read, failed) => this.send(command, args, read, failed, true),
      gather: () => {
        this.gather();
      },
      flush: () => {
        this.flush();
      },
    };
  }

  end(): void {
    this.#wire.end();
  }

  /** ASKING must be right in front of its command. If it fails, the command behind it is only redirected back. */
  #asking(): void {
    this.#wire.gather();
    void this.#wire.send('asking', [], ignore, (error) => {
      if (failureKind(error) === 'denied') this.#heard.hindered(error);
    });
  }

  #settle(isReady: boolean): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const each of waiting) each(isReady);
  }
}

/** Why nobody has answered: what says most. */
function explained(said: readonly Error[], tried: readonly string[]): Error {
  const reason =
    said.find((error) => failureKind(error) === 'denied') ??
    said.find(({ message }) => message === UNNAMED_NODES) ??
    said.find((error) => isReply(error)) ??
    said.find((error) => !isMereLoss(error) && !isUnreachable(error)) ??
    noneReached('node of the cluster', tried, said);
  if (!reason.message.endsWith(NO_CLUSTER)) return reason;
  const words = `${reason.message}: give this server as a single one, not as a cluster`;
  return replyError(words, { cause: reason });
}

function ofNode(reason: Error, address: string): Error {
  if (!(reason instanceof SilenceError)) return reason;
  return new Error(reason.message.replace(/^no \w+/, `no answer from ${address}`), {
    cause: reason,
  });
}

/** The first key: of a script what follows the number of keys, of any other command its first argument. */
function keyOf(command: string, args: readonly Argument[]): string | undefined {
  if (command === 'evalsha' || command === 'eval')
    return Number(args[1]) > 0 ? String(args[2]) : undefined;
  return KEYLESS.has(command) || args.length === 0 ? undefined : String(args[0]);
}
