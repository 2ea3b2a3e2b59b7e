// Tells of changed keys: a server reports changes of what a connection has read (CLIENT TRACKING, of Redis 6 and Valkey). Under RESP2 it
// reports them to another connection, so there are two to each node: the reader, on which keys are read and nothing else is sent, and the
// hearer. When one of the two ends, so does the other, and another pair is opened. The hearer is also subscribed to channels on which other
// clients leave word, which needs no tracking.
//
// One message spends the interest in a key, so it is read again after each. Our own writes come by other connections, and are reported, too.

import type { TrackingState } from '../api/description.js';
import { backOffMs, type BackOff, type Timer } from '../runtime/clock.js';
import { inOwnContext } from '../runtime/node.js';
import type { Cluster } from './cluster.js';
import {
  describe,
  failureKind,
  isLasting,
  isReply,
  redirectionOf,
  StrangeReplyError,
} from './failure.js';
import { infoField, type ServerFacts } from './greeting.js';
import { hashTag, slotOf } from './keys.js';
import { addressIn, INVALIDATIONS, ONLY_NODE, type Argument, type Heard } from './port.js';
import type { Session, Surroundings } from './session.js';
import { ignore, Wire } from './wire.js';

/** Between attempts to make a pair: the two may have been led to different servers, or to another one than the commands. */
const RECONNECTING: BackOff = { firstMs: 100, longestMs: 30_000, jitter: 0.25 };
/** How soon a server is asked again that does not permit it, or does not know it, in milliseconds. */
const DENIED_RETRY_MS = 300_000;

/** How long pairs stay open that nobody needs, in milliseconds. */
const LINGER_MS = 30_000;

/** What it needs of its client, a `RedisClient`. */
interface TrackedClient {
  readonly surroundings: Surroundings;
  readonly server: ServerFacts;
  readonly isReady: boolean;
  readonly isCluster: boolean;
  readonly cluster: Cluster | undefined;
  readonly address: Session['address'];
  readonly database: number;
  listen(listener: { ready(): void; nodesChanged(): void }): unknown;
}

/** Callbacks for what the servers of one client tell. */
export interface TrackingListener {
  /** This key has changed; undefined: all keys may have. It is not tracked any more. */
  changed(key: string | undefined): void;
  /** Keys can be read that could not be before. */
  ready(): void;
  /** Another client leaves word on the listener's channel; in a cluster it comes once from each node. */
  message(payload: string): void;
}

/**
 * Whether a field is there. undefined: that could not be read, and no change is told; `refused`: the same, and the server is there;
 * `elsewhere`: the slot migrates, and the key is at the next node, or gone.
 */
type Read = boolean | 'refused' | 'elsewhere' | undefined;

export class Tracking {
  readonly #client: TrackedClient;
  readonly #listeners = new Map<TrackingListener, string>();
  readonly #pairs = new Map<string, Pair>();
  #neededCount = 0;
  #lingerTimer: Timer | undefined;
  /** Set when its client is closed: it tells nothing any more. */
  isClosed = false;

  constructor(client: TrackedClient) {
    this.#client = client;
    client.listen({
      ready: () => {
        for (const pair of this.#pairs.values()) pair.checkPlace();
      },
      nodesChanged: () => {
        const masters = client.cluster?.masters;
        for (const [node, pair] of this.#pairs)
          if (masters && !masters.includes(node)) this.#drop(node, pair);
        // A key that was nowhere may be somewhere, and one that is told may be elsewhere.
        if (masters) this.#tell.changed(undefined);
        this.#tell.ready();
      },
    });
  }

  /** `channel`: where others leave word for this listener. Returns how to stop listening. */
  listen(channel: string, listener: TrackingListener): () => void {
    this.#listeners.set(listener, channel);
    for (const pair of this.#pairs.values()) pair.subscribe(channel);
    return () => this.#listeners.delete(listener);
  }

  /** So many keys more, or fewer, are going to be read. */
  need(more: 1 | -1): void {
    const { clock } = this.#client.surroundings;
    this.#neededCount += more;
    clock.clearTimer(this.#lingerTimer);
    if (this.#neededCount === 0 && this.#pairs.size > 0)
      this.#lingerTimer = clock.setTimer(this.#dropAll, LINGER_MS);
  }

  /** Whether changes of this key can be told now. If not, it begins to see to that, and `ready` follows. */
  canRead(key: string): boolean {
    return this.#pairFor(key)?.reader !== undefined;
  }

  /** Reads whether a hash has a field; from then on the next change of the key is told. */
  async hasField(key: string, field: string): Promise<Read> {
    const pair = this.#pairFor(key);
    const failed = (error: Error): Read => {
      if (pair) this.#client.cluster?.learnFrom(error, pair.node); // the slot may have moved
      // If the key holds something else by now, the field is gone.
      if (failureKind(error) === 'conflict') return false;
      const redirection = redirectionOf(error);
      if (redirection) return redirection.kind === 'ASK' ? 'elsewhere' : undefined;
      return isReply(error) ? 'refused' : undefined;
    };
    const isThere = (reply: unknown): boolean => reply !== null;
    return await pair?.reader?.send<Read>('hget', [key, field], isThere, failed);
  }

  get state(): TrackingState {
    const pairs = [...this.#pairs.values()];
    if (pairs.length === 0) return { state: 'unused' };
    const reasons = pairs.flatMap(({ node, failure }) => {
      if (!failure) return [];
      return node === ONLY_NODE ? describe(failure) : `${node}: ${describe(failure)}`;
    });
    if (reasons.length > 0) return { state: 'failed', reason: reasons.join('; ') };
    return { state: pairs.every(({ isProved }) => isProved) ? 'proven' : 'unproven' };
  }

  close(): void {
    this.isClosed = true;
    this.#client.surroundings.clock.clearTimer(this.#lingerTimer);
    this.#dropAll();
  }

  readonly #dropAll = (): void => {
    for (const [node, pair] of this.#pairs) this.#drop(node, pair);
  };

  #pairFor(key: string): Pair | undefined {
    const { cluster, isCluster } = this.#client;
    const node = isCluster ? cluster?.masterOf(slotOf(hashTag(key))) : ONLY_NODE;
    if (node === undefined || this.isClosed) return undefined;
    let pair = this.#pairs.get(node);
    if (!pair) {
      const channels = (): Iterable<string> => new Set(this.#listeners.values());
      this.#pairs.set(node, (pair = new Pair(this.#client, node, channels, this.#tell)));
    }
    return pair;
  }

  #drop(node: string, pair: Pair): void {
    this.#pairs.delete(node);
    pair.close();
  }

  readonly #tell: PairHeard = {
    changed: (key) => {
      for (const listener of this.#listeners.keys()) listener.changed(key);
    },
    ready: () => {
      for (const listener of this.#listeners.keys()) listener.ready();
    },
    message: (channel, payload) => {
      for (const [listener, wanted] of this.#listeners)
        if (wanted === channel) listener.message(payload);
    },
  };
}

type PairHeard = Pick<TrackingListener, 'changed' | 'ready'> & Pick<Heard, 'message'>;

/**
 * pausing -> opening -> hearing <-> telling, from all of them to pausing, and to closed. `hearing`: subscribed, or about to be, to what
 * clients publish; `telling`: the server reports changes of what is read, too.
 */
type State =
  | { readonly kind: 'pausing'; readonly timer: Timer }
  | {
      readonly kind: 'opening' | 'hearing' | 'telling';
      readonly reader: Wire;
      readonly hearer: Wire;
    }
  | { readonly kind: 'closed' };

/** The two connections to one node. */
class Pair {
  readonly #client: TrackedClient;
  readonly node: string;
  readonly #channels: () => Iterable<string>;
  readonly #heard: PairHeard;
  #state: State;
  #attempt = 0;
  /** Why changes are not told. */
  failure: Error | undefined;
  /** The next ping, or the next try to be told. */
  #timer: Timer | undefined;
  /** The run id of the server at the other end. */
  #runId: string | undefined;
  /** Whether this pair was told of a change: that a server accepts everything does not prove that it tells. */
  isProved = false;

  constructor(
    client: TrackedClient,
    node: string,
    channels: () => Iterable<string>,
    heard: PairHeard,
  ) {
    this.#client = client;
    this.node = node;
    this.#channels = channels;
    this.#heard = heard;
    this.#state = inOwnContext(() => this.#open());
  }

  /** undefined: changes are not told now. */
  get reader(): Wire | undefined {
    return this.#state.kind === 'telling' ? this.#state.reader : undefined;
  }

  /** Commands can be sent again, and may go to another server than before. */
  checkPlace(): void {
    const isPausing = this.#state.kind === 'pausing';
    if (!isPausing && !(this.#isOn && this.#isElsewhere)) return;
    this.#attempt = 0;
    if (isPausing) this.#become(this.#open());
    else this.#end(new Error('commands go to another server'));
  }

  subscribe(channel: string): void {
    if (this.#isOn && 'hearer' in this.#state) this.#hear(this.#state.hearer, channel);
  }

  close(): void {
    this.#become({ kind: 'closed' });
  }

  get #isOn(): boolean {
    return this.#state.kind === 'hearing' || this.#state.kind === 'telling';
  }

  #become(next: State): void {
    const former = this.#state as State | undefined;
    const { clock } = this.#client.surroundings;
    this.#state = next;
    if (former?.kind === 'pausing') clock.clearTimer(former.timer);
    if (former && 'reader' in former && !('reader' in next)) {
      clock.clearTimer(this.#timer);
      this.isProved = false;
      former.reader.end();
      former.hearer.end();
    }
    if (former?.kind === 'telling') this.#heard.changed(undefined);
  }

  #open(): State {
    const { surroundings, address: only } = this.#client;
    const address = this.node === ONLY_NODE ? only : addressIn(this.node);
    if (!address) return this.#pause();
    let readyCount = 0;
    const ready = (): void => {
      if (++readyCount === 2 && this.#state === state) this.#begin(reader, hearer);
    };
    const ended = (reason: Error | undefined): void => {
      if (this.#uses(reader)) this.#end(reason ?? new Error('the server closed the connection'));
    };
    const reader: Wire = new Wire(surroundings, address, 'commands', { ready, ended });
    const hearer: Wire = new Wire(surroundings, address, 'subscriptions', {
      ready,
      ended,
      message: this.#heard.message,
      invalidated: (keys) => {
        if (this.reader !== reader) return;
        this.isProved = true;
        if (!keys) this.#heard.changed(undefined);
        else for (const key of keys) this.#heard.changed(key);
      },
    });
    const state: State = { kind: 'opening', reader, hearer };
    return state;
  }

  #uses(reader: Wire): boolean {
    return 'reader' in this.#state && this.#state.reader === reader;
  }

  #begin(reader: Wire, hearer: Wire): void {
    this.#become({ kind: 'hearing', reader, hearer });
    // Asked first: a subscriber may not ask.
    const facts = Promise.all([ask(hearer, 'client', 'ID'), ask(hearer, 'info', 'server')]);
    for (const channel of this.#channels()) this.#hear(hearer, channel);
    void this.#track(facts, reader, hearer);
  }

  #hear(hearer: Wire, channel: string): void {
    hearer.subscribe([channel], false, ignore); // if that is denied, tracking may be permitted nevertheless
  }

  /**
   * Makes the hearer the one that the reader's server tells. Only if both are at one server: the ids of connections are counted by each, so
   * elsewhere it may be a stranger's, which would hear the names of our locks.
   */
  async #track(facts: Promise<unknown[]>, reader: Wire, hearer: Wire): Promise<void> {
    try {
      const { database } = this.#client;
      const [[id, heardAt], readAt] = await Promise.all([
        facts,
        ask(reader, 'info', 'server'),
        database > 0 && ask(reader, 'select', database),
      ]);
      this.#runId = infoField(readAt, 'run_id');
      if (this.#runId === undefined) throw new StrangeReplyError('INFO says no run_id');
      if (this.#runId !== infoField(heardAt, 'run_id'))
        throw new Error('the two connections lead to different servers');
      if (this.#isElsewhere) throw new Error('the connection for commands is at another server');
      await subscribed(hearer);
      await ask(reader, 'client', 'TRACKING', 'ON', 'REDIRECT', Number(id));
      if (!this.#uses(reader)) return;
      this.#attempt = 0;
      this.failure = undefined;
      this.#become({ kind: 'telling', reader, hearer });
      this.#ping(reader, hearer);
      this.#heard.ready();
    } catch (error) {
      if (!this.#uses(reader)) return;
      if (isLasting(error)) this.#refused(error as Error);
      else this.#end(error as Error);
    }
  }

  /** Whether commands go to another server. Not asked in a cluster, where any node may have answered the greeting. */
  get #isElsewhere(): boolean {
    const { isReady, isCluster, server } = this.#client;
    return !isCluster && (!isReady || server.id !== this.#runId);
  }

  /** The server does not permit it, or does not know it: what clients publish is heard nevertheless. Later, another pair tries again. */
  #refused(failure: Error): void {
    this.#attempt = 0;
    this.failure = failure;
    this.#timer = this.#client.surroundings.clock.setTimer(() => {
      this.#end(failure);
    }, DENIED_RETRY_MS);
  }

  /** A connection that died silently looks like one on which nothing changes. */
  #ping(...wires: readonly Wire[]): void {
    const { clock, silenceLimitMs } = this.#client.surroundings;
    this.#timer = clock.setTimer(() => {
      for (const wire of wires) void wire.send('ping', ['holdfast'], ignore, ignore);
      this.#ping(...wires);
    }, silenceLimitMs);
  }

  #end(reason: Error): void {
    this.failure = reason;
    this.#become(this.#pause());
  }

  #pause(): State {
    const { clock, random } = this.#client.surroundings;
    const again = (): void => {
      this.#become(this.#open());
    };
    const pauseMs = backOffMs(++this.#attempt, random, RECONNECTING);
    return { kind: 'pausing', timer: clock.setTimer(again, pauseMs) };
  }
}

function ask(
  wire: Wire,
  command: Lowercase<string>,
  ...args: readonly Argument[]
): Promise<unknown> {
  return wire.send(
    command,
    args,
    (reply) => reply,
    (error) => Promise.reject(error),
  );
}

/** Rejects if the server refuses. If the connection ends, so does the pair, and this is never settled. */
function subscribed(wire: Wire): Promise<void> {
  return new Promise((resolve, reject) => {
    wire.subscribe([INVALIDATIONS], false, (refusal) => {
      if (refusal) reject(refusal);
      else resolve();
    });
  });
}
