// A session with a cluster: knows which master has which slots, and connects to each master that is needed. A node is an address with one
// wire: it is made for the first command to it, and dropped when the wire ends.

import { backOffMs, type Timer } from '../runtime/clock.js';
import {
  describe,
  failureKind,
  isClusterDown,
  isMereLoss,
  NodeGoneError,
  redirectionOf,
  whyNone,
} from './failure.js';
import { hashTag, readSlots, type SlotMap, slotOf } from './keys.js';
import { addressIn, textOf, type Argument, type Sender, type Target } from './port.js';
import type { Session, SessionHeard, Surroundings } from './session.js';
import { ignore, unsent, Wire } from './wire.js';

const MOST_REDIRECTIONS = 16;
/** How often slots are looked up at most. */
const REFRESH_PAUSE_MS = 250;
/** How long one node has for its answer before the next is asked, too. */
const STAGGER_MS = 200;

/**
 * `refreshed`: slots were looked up, or one was found elsewhere. `nodeLost`: the connection to a node is gone, or it is no master any more.
 */
export interface Watcher {
  readonly refreshed: (cluster: Cluster) => void;
  readonly nodeLost: (address: string) => void;
}

type Given = Extract<Target, { kind: 'cluster' }>;

export class Cluster implements Session {
  readonly address = undefined;
  readonly isCluster = true;
  readonly #surroundings: Surroundings;
  readonly #target: Given;
  readonly #watcher: Watcher;
  readonly #heard: SessionHeard;
  readonly #nodes = new Map<string, Node>();
  /** Nodes that could not be reached. Each look-up of slots tries those anew that have slots. */
  readonly #gone = new Map<string, { reason: Error; why: string; attempt: number }>();
  /** `opening`: no node has answered yet which node has which slots. */
  #state: 'opening' | 'ready' | 'ended' = 'opening';
  #slots: SlotMap = { masters: [], masterBySlot: [] };
  /** When slots are looked up next; -Infinity: a look-up is under way. */
  #dueAtMs = Infinity;
  #timer: Timer | undefined;
  #lookedUpAtMs = -Infinity;
  /** Whether the result of the look-up that is under way may be outdated. */
  #isStale = false;

  constructor(surroundings: Surroundings, target: Given, watcher: Watcher, heard: SessionHeard) {
    this.#surroundings = surroundings;
    this.#target = target;
    this.#watcher = watcher;
    this.#heard = heard;
    void this.#lookUp();
  }

  get isReady(): boolean {
    return this.#state === 'ready';
  }

  get owesAnswer(): boolean {
    for (const node of this.#nodes.values()) if (node.owesAnswer) return true;
    return false;
  }

  get opening(): Error | undefined {
    for (const node of this.#nodes.values()) if (node.opening) return node.opening;
    return undefined;
  }

  get masters(): readonly string[] {
    return this.#slots.masters;
  }

  masterOf(slot: number): string | undefined {
    return this.#slots.masterBySlot[slot];
  }

  /** The address at which we reach a node; `announced`: the address by which the node `by` calls it. */
  reachedAt(announced: string, by: string): string {
    // Redis leaves out the host if it is that of the asked node.
    const host = announced.startsWith(':') ? by.slice(0, by.lastIndexOf(':')) : '';
    const at = this.#target.remap(host + announced);
    return at ? textOf(at) : host + announced;
  }

  /** Whether a master that has slots cannot be reached. */
  get isDegraded(): boolean {
    return this.masters.some((address) => this.#gone.has(address));
  }

  /** Why the node there cannot be reached. */
  goneFor(address: string): Error | undefined {
    return this.#gone.get(address)?.reason;
  }

  /** The node there; undefined: it could not be reached a moment ago, or the session is over. */
  node(address: string): Node | undefined {
    const isGone = this.#gone.has(address) && !this.#nodes.has(address);
    return isGone || this.#state === 'ended' ? undefined : this.#open(address);
  }

  /** The node that has a key, as far as is known; it follows no redirection. */
  nodeOf(key: string): Node | undefined {
    const master = this.masterOf(slotOf(hashTag(key)));
    return master === undefined ? undefined : this.node(master);
  }

  /** Follows redirections. */
  send<T>(
    command: Lowercase<string>,
    args: readonly Argument[],
    read: (reply: unknown) => T,
    failed: (error: Error) => T | Promise<T>,
  ): Promise<T> {
    let redirections = 0;
    const sendTo = (address: string | undefined, isAsking = false): Promise<T> => {
      const node = address === undefined ? undefined : this.node(address);
      if (!node) return this.#unsent(address, failed);
      return (isAsking ? node.asking : node).send(command, args, read, (error) => {
        if (error instanceof NodeGoneError) return this.#unsent(address, failed);
        const to = redirectionOf(error);
        if (!to || redirections++ === MOST_REDIRECTIONS) return failed(error);
        this.learnFrom(error, node.address);
        return sendTo(this.reachedAt(to.address, node.address), to.kind === 'ASK');
      });
    };
    if (command === 'info' || command === 'pubsub') return sendTo(this.#anyMaster());
    const firstKey = command.startsWith('eval') ? args[2] : args[0];
    return sendTo(this.masterOf(slotOf(hashTag(String(firstKey)))));
  }

  gather(): void {
    // each node gathers by itself
  }

  flush(): void {
    for (const node of this.#nodes.values()) node.flush();
  }

  /** Learns from the refusal of a node. MOVED says where one slot is; the other slots have to be looked up. */
  learnFrom(error: Error, by: string): void {
    const to = redirectionOf(error);
    if (to?.kind !== 'MOVED') return;
    const address = this.reachedAt(to.address, by);
    this.refresh();
    if (!this.isReady || this.masterOf(to.slot) === address) return;
    const { masters, masterBySlot } = this.#slots;
    this.#slots = {
      masters: masters.includes(address) ? masters : [...masters, address],
      masterBySlot: masterBySlot.with(to.slot, address),
    };
    this.#watcher.refreshed(this);
  }

  /** Looks up the slots again: soon, and not too often. */
  readonly refresh = (): void => {
    this.#isStale = true;
    this.#lookUpIn(0);
  };

  end(reason?: Error): void {
    if (this.#state === 'ended') return;
    this.#state = 'ended';
    this.#surroundings.clock.clearTimer(this.#timer);
    for (const node of this.#nodes.values()) node.end();
    queueMicrotask(() => {
      this.#heard.ended(reason);
    });
  }

  /** Fails a command whose node cannot be reached. After the second failed attempt, waiting for a moment does not help. */
  #unsent<T>(address = '', failed: (error: Error) => T | Promise<T>): Promise<T> {
    this.refresh();
    const gone = this.#gone.get(address);
    if (!gone) return unsent('the node that has the slot is not known', failed);
    return unsent(gone.attempt > 1 ? new NodeGoneError(gone.why) : gone.why, failed);
  }

  /** A connected master, or else any that may be reached. */
  #anyMaster(): string | undefined {
    const connected = this.masters.find((address) => this.#nodes.get(address)?.isReady);
    return connected ?? this.masters.find((address) => this.node(address));
  }

  /** Connects to a node unless we are connected; also to a node that could not be reached a moment ago. */
  #open(address: string): Node {
    const known = this.#nodes.get(address);
    if (known) return known;
    const wire = new Wire(this.#surroundings, addressIn(address), 'commands', {
      ready: () => {
        this.#gone.delete(address);
        node.settle();
      },
      ended: (reason) => {
        if (this.#nodes.get(address) === node) this.#lost(address, reason);
        node.settle(this.#gone.get(address)?.why); // after #lost: refused commands look for another node
      },
    });
    const node = new Node(address, wire, this.refresh, this.#heard.hurt);
    this.#nodes.set(address, node);
    return node;
  }

  #lost(address: string, end: Error | undefined): void {
    this.#nodes.delete(address);
    const attempt = (this.#gone.get(address)?.attempt ?? 0) + 1;
    const reason = end ?? new Error('it closed the connection');
    const why = `the node ${address} of the cluster cannot be reached: ${describe(reason)}`;
    this.#gone.set(address, { reason, why, attempt });
    if (!this.isReady) return;
    if (end && !isMereLoss(end)) this.#heard.hurt(new Error(why, { cause: end }));
    this.#watcher.nodeLost(address);
    this.#lookUpIn(backOffMs(attempt, this.#surroundings.random));
  }

  #lookUpIn(delayMs: number): void {
    const { clock } = this.#surroundings;
    const nowMs = clock.nowMs();
    const atMs = Math.max(nowMs + delayMs, this.#lookedUpAtMs + REFRESH_PAUSE_MS);
    if (!this.isReady || atMs >= this.#dueAtMs) return;
    clock.clearTimer(this.#timer);
    this.#dueAtMs = atMs;
    this.#timer = clock.setTimer(() => void this.#lookUp(), atMs - nowMs);
  }

  /** Looks up the slots: asks the nodes one by one, at short intervals, until one has answered. If none does, the session ends. */
  async #lookUp(): Promise<void> {
    const { clock } = this.#surroundings;
    const startup = this.#target.startup.map(textOf);
    // Masters in random order, connected or not: the connected one may be the one that has no news.
    const candidates = [...new Set([...this.#shuffled(this.masters), ...this.#shuffled(startup)])];
    const { length: count } = candidates;
    const said: Error[] = [];
    let timer: Timer | undefined;
    this.#dueAtMs = -Infinity;
    this.#isStale = false;
    const slots = await new Promise<SlotMap | undefined>((resolve) => {
      const askNext = (): void => {
        clock.clearTimer(timer);
        const address = candidates.shift();
        if (address === undefined || this.#state === 'ended') return;
        timer = clock.setTimer(askNext, STAGGER_MS);
        this.#ask(address).then(resolve, (error: unknown) => {
          if (said.push(error as Error) === count) resolve(undefined);
          else askNext();
        });
      };
      askNext();
    });
    clock.clearTimer(timer);
    candidates.length = 0; // later answers are not newer than the first
    this.#dueAtMs = Infinity;
    this.#lookedUpAtMs = clock.nowMs();
    if (slots) this.#learn(slots);
    else this.end(whyNone('node of the cluster', startup, said));
  }

  #ask(address: string): Promise<SlotMap> {
    return this.#open(address).send(
      'cluster',
      ['slots'],
      (reply) => readSlots(reply, (announced) => this.reachedAt(announced, address)),
      (error) => {
        throw this.goneFor(address) ?? error;
      },
    );
  }

  #learn(slots: SlotMap): void {
    if (this.#state === 'ended') return;
    const isFirst = this.#state === 'opening';
    this.#state = 'ready';
    this.#slots = slots;
    for (const address of this.#gone.keys())
      if (slots.masters.includes(address)) this.#open(address);
      else this.#gone.delete(address);
    for (const [address, node] of this.#nodes) {
      if (slots.masters.includes(address)) continue;
      // It is no master any more, and is left when it has answered all its commands.
      this.#isStale ||= node.owesAnswer;
      if (node.owesAnswer) continue;
      this.#nodes.delete(address);
      node.end();
      this.#watcher.nodeLost(address);
    }
    if (isFirst) this.#heard.ready();
    this.#watcher.refreshed(this);
    if (this.#isStale) this.#lookUpIn(0);
  }

  #shuffled<T>(list: readonly T[]): T[] {
    return list
      .map((each) => ({ each, order: this.#surroundings.random() }))
      .sort((one, other) => one.order - other.order)
      .map(({ each }) => each);
  }
}

/** One node of a cluster: commands that are sent before its wire is ready wait here, in order. It follows no redirection. */
export class Node implements Sender {
  readonly address: string;
  readonly #wire: Wire;
  readonly #isDown: () => void;
  readonly #denied: (error: Error) => void;
  /** The commands to be sent when the wire is ready, or refused when it ends; undefined: it was ready, or has ended. */
  #waiting: (() => void)[] | undefined = [];
  #goneWhy: string;

  /** `isDown`: the node answers CLUSTERDOWN; `denied`: it does not permit ASKING, which others may. */
  constructor(address: string, wire: Wire, isDown: () => void, denied: (error: Error) => void) {
    this.address = address;
    this.#goneWhy = `not connected to ${address}`;
    this.#wire = wire;
    this.#isDown = isDown;
    this.#denied = denied;
  }

  /** Called when the wire is ready, and when it has ended, with the reason if it is known. */
  settle(goneWhy: string = this.#goneWhy): void {
    this.#goneWhy = goneWhy;
    const waiting = this.#waiting ?? [];
    this.#waiting = undefined;
    for (const each of waiting) each();
  }

  get isReady(): boolean {
    return this.#wire.isReady;
  }

  get owesAnswer(): boolean {
    return this.#wire.owesAnswer || (this.#waiting ?? []).length > 0;
  }

  /** undefined also if no command waits for it. */
  get opening(): Error | undefined {
    return this.owesAnswer ? this.#wire.opening : undefined;
  }

  readonly send: Sender['send'] = (command, args, read, failed) => {
    if (this.#waiting)
      return new Promise((resolve) => {
        this.#waiting?.push(() => {
          resolve(this.send(command, args, read, failed));
        });
      });
    if (!this.isReady) return unsent(new NodeGoneError(this.#goneWhy), failed);
    return this.#wire.send(command, args, read, (error) => {
      // Such a node does not redirect to the new owner of its slots, and its connection is well.
      if (isClusterDown(error)) this.#isDown();
      return failed(error);
    });
  };

  readonly gather = (): void => {
    this.#wire.gather();
  };

  readonly flush = (): void => {
    this.#wire.flush();
  };

  /** For a slot that is still migrating to this node: each command has an ASKING right before it. */
  readonly asking: Sender = {
    send: (command, args, read, failed) => {
      this.gather();
      // If it fails, the command behind it is merely redirected back.
      void this.send('asking', [], ignore, (error) => {
        if (failureKind(error) === 'denied') this.#denied(error);
      });
      return this.send(command, args, read, failed);
    },
    gather: this.gather,
    flush: this.flush,
  };

  end(): void {
    this.#wire.end();
  }
}
