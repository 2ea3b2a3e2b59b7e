// A session with a cluster: which master has which slots, and a connection to each that is needed. A node is an address with one wire: it is made
// when something is to be sent, and thrown away, node and all, when the wire ends.

import {
  describe,
  failureKind,
  isClusterDown,
  isMereLoss,
  NodeGoneError,
  redirectionOf,
  replyError,
} from './failure.js';
import { hashTag } from './keys.js';
import { addressIn, textOf, type Argument, type Sender, type Target } from './port.js';
import { backOffMs, type Session, type SessionHeard, type Surroundings } from './session.js';
import { readSlots, slotOf, type SlotMap } from './slots.js';
import { whyNone } from './why-none.js';
import { ignore, unsent, Wire } from './wire.js';

export type ClusterTarget = Extract<Target, { kind: 'cluster' }>;

const MOST_REDIRECTIONS = 16;
/** How often slots are looked up at most. */
const REFRESH_PAUSE_MS = 250;
/** How long one node is waited for before the next is asked, too. */
const STAGGER_MS = 200;
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

/** A node that could not be reached, until it is, or is no master any more. It is tried again with each look-up of slots. */
interface Gone {
  readonly reason: Error;
  readonly attempt: number;
}

export class Cluster implements Session {
  readonly address = undefined;
  readonly isCluster = true;
  readonly #surroundings: Surroundings;
  readonly #target: ClusterTarget;
  readonly #watcher: Watcher;
  readonly #heard: SessionHeard;
  readonly #nodes = new Map<string, Node>();
  readonly #gone = new Map<string, Gone>();
  #state: State = { kind: 'opening' };
  /** When slots are looked up next; -Infinity: they are being looked up. */
  #dueAtMs = Infinity;
  #timer: NodeJS.Timeout | undefined;
  #lookedUpAtMs = -Infinity;
  /** Whether what the look-up that is under way finds may be outdated. */
  #isStale = false;

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
    void this.#lookUp();
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
    const host = announced.startsWith(':') ? by.slice(0, by.lastIndexOf(':')) : '';
    const at = this.#target.remap(host + announced);
    return at ? textOf(at) : host + announced;
  }

  /** Whether a master that has slots cannot be reached. */
  get isDegraded(): boolean {
    return this.#gone.size > 0 && this.masters.some((address) => this.#gone.has(address));
  }

  /** Why nodes cannot be reached, by address. */
  get unreachable(): ReadonlyMap<string, Error> {
    return new Map([...this.#gone].map(([address, { reason }]) => [address, reason]));
  }

  /** The node there; undefined: it could not be reached a moment ago, or the session is over. */
  node(address: string): Node | undefined {
    return this.#nodes.get(address) ?? (this.#gone.has(address) ? undefined : this.#open(address));
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
      const otherwise = (error: Error): T | Promise<T> => {
        if (error instanceof NodeGoneError) return this.#unsent(address, failed);
        const to = redirectionOf(error);
        if (!to || redirections++ === MOST_REDIRECTIONS) return failed(error);
        this.learnFrom(error, node.address);
        return sendTo(this.reachedAt(to.address, node.address), to.kind === 'ASK');
      };
      return node.send(command, args, read, otherwise, isAsking);
    };
    const key = keyOf(command, args);
    return sendTo(key === undefined ? this.#anyMaster() : this.masterOf(slotOf(hashTag(key))));
  }

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
    if (this.#state.kind !== 'ready' || this.masterOf(to.slot) === address) return;
    const { masters, masterBySlot } = this.#state.slots;
    const slots = {
      masters: masters.includes(address) ? masters : [...masters, address],
      masterBySlot: masterBySlot.with(to.slot, address),
    };
    this.#state = { kind: 'ready', slots };
    this.#watcher.refreshed(this);
  }

  /** Looks up anew which node has which slots: soon, and not too often. */
  readonly refresh = (): void => {
    this.#isStale = true;
    this.#lookUpIn(0);
  };

  end(reason?: Error): void {
    if (this.#state.kind === 'ended') return;
    this.#state = { kind: 'ended' };
    clearTimeout(this.#timer);
    for (const node of this.#nodes.values()) node.end();
    queueMicrotask(() => {
      this.#heard.ended(reason);
    });
  }

  /** The node cannot be reached. If the second attempt has failed, too, waiting for a moment does not help. */
  #unsent<T>(address = '', failed: (error: Error) => T | Promise<T>): Promise<T> {
    this.refresh();
    const gone = this.#gone.get(address);
    if (!gone) return unsent('the node that has the slot is not known', failed);
    const why = whyUnreachable(address, gone.reason);
    return unsent(gone.attempt > 1 ? new NodeGoneError(why) : why, failed);
  }

  /** One that is connected, or else any that may be reached. */
  #anyMaster(): string | undefined {
    return (
      this.masters.find((address) => this.#nodes.get(address)?.isReady) ??
      this.masters.find((address) => this.node(address))
    );
  }

  /** Connects to a node, unless we are connected; also to one that could not be reached a moment ago. */
  #open(address: string): Node | undefined {
    if (this.#state.kind === 'ended') return undefined;
    const known = this.#nodes.get(address);
    if (known) return known;
    const node = new Node(this.#surroundings, address, {
      ready: () => {
        this.#gone.delete(address);
      },
      ended: (reason) => {
        if (this.#nodes.get(address) === node) this.#lost(address, reason);
      },
      // Such a node redirects nobody to who has its slots now, and its connection is well.
      isDown: this.refresh,
      hurt: this.#heard.hurt,
    });
    this.#nodes.set(address, node);
    return node;
  }

  #lost(address: string, reason: Error | undefined): void {
    this.#nodes.delete(address);
    const attempt = (this.#gone.get(address)?.attempt ?? 0) + 1;
    this.#gone.set(address, { attempt, reason: reason ?? new Error('it closed the connection') });
    if (!this.isReady) return;
    if (reason && !isMereLoss(reason))
      this.#heard.hurt(new Error(whyUnreachable(address, reason), { cause: reason }));
    this.#watcher.nodeLost(address);
    this.#lookUpIn(backOffMs(attempt, this.#surroundings.random));
  }

  #lookUpIn(delayMs: number): void {
    const { clock } = this.#surroundings;
    const nowMs = clock.nowMs();
    const atMs = Math.max(nowMs + delayMs, this.#lookedUpAtMs + REFRESH_PAUSE_MS);
    if (!this.isReady || atMs >= this.#dueAtMs) return;
    clearTimeout(this.#timer);
    this.#dueAtMs = atMs;
    this.#timer = clock.setTimer(() => void this.#lookUp(), atMs - nowMs);
  }

  /** Asks one node after the other, each a little after the former, until one has answered. If none does, the session ends. */
  async #lookUp(): Promise<void> {
    const { clock } = this.#surroundings;
    const startup = this.#target.startup.map(textOf);
    // Masters in random order, connected or not: one that is connected may be the one that knows nothing new.
    const candidates = [...new Set([...this.#shuffled(this.masters), ...this.#shuffled(startup)])];
    const { length: count } = candidates;
    const said: Error[] = [];
    let timer: NodeJS.Timeout | undefined;
    this.#dueAtMs = -Infinity;
    this.#isStale = false;
    const slots = await new Promise<SlotMap | undefined>((resolve) => {
      const askNext = (): void => {
        clearTimeout(timer);
        const address = candidates.shift();
        if (address === undefined) return;
        timer = clock.setTimer(askNext, STAGGER_MS);
        this.#ask(address).then(resolve, (error: unknown) => {
          if (said.push(error as Error) === count) resolve(undefined);
          else askNext();
        });
      };
      askNext();
    });
    clearTimeout(timer);
    candidates.length = 0; // what is answered after the first answer is not newer
    this.#dueAtMs = Infinity;
    this.#lookedUpAtMs = clock.nowMs();
    if (slots) this.#learn(slots);
    else this.end(whyNone('node of the cluster', startup, said));
  }

  /** @throws Error the node is of no help */
  async #ask(address: string): Promise<SlotMap> {
    const node = this.#open(address);
    if (!node) throw new Error('the session is over');
    return node.send(
      'cluster',
      ['slots'],
      (reply) => readSlots(reply, (announced) => this.reachedAt(announced, address)),
      (error) => {
        const reason = this.#gone.get(address)?.reason ?? error;
        if (!reason.message.endsWith(NO_CLUSTER)) throw reason;
        const words = `${reason.message}: give this server as a single one, not as a cluster`;
        throw replyError(words, { cause: reason });
      },
    );
  }

  #learn(slots: SlotMap): void {
    const { kind } = this.#state;
    if (kind === 'ended') return;
    this.#state = { kind: 'ready', slots };
    for (const address of this.#gone.keys())
      if (slots.masters.includes(address)) this.#open(address);
      else this.#gone.delete(address);
    for (const [address, node] of this.#nodes) {
      if (slots.masters.includes(address)) continue;
      // It is no master any more, and is left when it has answered what it was sent.
      this.#isStale ||= node.owesAnswer;
      if (node.owesAnswer) continue;
      this.#nodes.delete(address);
      node.end();
      this.#watcher.nodeLost(address);
    }
    if (kind === 'opening') this.#heard.ready();
    this.#watcher.refreshed(this);
    this.#lookUpIn(this.#isStale ? 0 : this.#target.refreshMs || Infinity);
  }

  #shuffled<T>(list: readonly T[]): T[] {
    return list
      .map((each) => ({ each, order: this.#surroundings.random() }))
      .sort((one, other) => one.order - other.order)
      .map(({ each }) => each);
  }
}

interface NodeHeard extends SessionHeard {
  /** It answers, but serves nobody (CLUSTERDOWN). */
  readonly isDown: () => void;
}

/** One node of a cluster: what is sent before its wire is ready waits there, in order. It follows no redirection. */
export class Node implements Sender {
  readonly address: string;
  readonly #wire: Wire;
  readonly #heard: NodeHeard;
  /** What is to be sent when the wire is ready; or is refused when it never will be. */
  readonly #waiting: (() => void)[] = [];
  #hasEnded = false;

  constructor(surroundings: Surroundings, address: string, heard: NodeHeard) {
    this.address = address;
    this.#heard = heard;
    const settle = (): void => {
      for (const each of this.#waiting.splice(0)) each();
    };
    this.#wire = new Wire(surroundings, addressIn(address), 'commands', {
      ready: () => {
        heard.ready();
        settle();
      },
      ended: (reason) => {
        this.#hasEnded = true;
        heard.ended(reason); // first: who is refused now looks where to go instead
        settle();
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
    if (this.#hasEnded)
      return unsent(new NodeGoneError(`not connected to ${this.address}`), failed);
    if (!this.isReady)
      return new Promise<T>((resolve) => {
        this.#waiting.push(() => {
          resolve(this.send(command, args, read, failed, isAsking));
        });
      });
    if (isAsking) this.#sendAsking();
    return this.#wire.send(command, args, read, (error) => {
      if (isClusterDown(error)) this.#heard.isDown();
      return failed(error);
    });
  }

  readonly gather = (): void => {
    this.#wire.gather();
  };

  readonly flush = (): void => {
    this.#wire.flush();
  };

  /** Sends each command with an ASKING in front of it. */
  readonly asking: Sender = {
    send: (command, args, read, failed) => this.send(command, args, read, failed, true),
    gather: this.gather,
    flush: this.flush,
  };

  end(): void {
    this.#wire.end();
  }

  /** ASKING must be right in front of its command. If it fails, the command behind it is only redirected back. */
  #sendAsking(): void {
    this.#wire.gather();
    void this.#wire.send('asking', [], ignore, (error) => {
      if (failureKind(error) === 'denied') this.#heard.hurt(error);
    });
  }
}

function whyUnreachable(address: string, reason: Error): string {
  return `the node ${address} of the cluster cannot be reached: ${describe(reason)}`;
}

/** The first key: of a script what follows the number of keys, of any other command its first argument. */
function keyOf(command: string, args: readonly Argument[]): string | undefined {
  if (command === 'evalsha' || command === 'eval')
    return Number(args[1]) > 0 ? String(args[2]) : undefined;
  return KEYLESS.has(command) || args.length === 0 ? undefined : String(args[0]);
}
