// The master that Sentinels name. Each client listens to all Sentinels, so that it leaves a replaced master at once, before the master
// itself knows: until then that one would go on granting locks, beside the new master.

import { backOffMs, type Timer } from '../runtime/clock.js';
import { isDenial, isReply, RefusedError, whyNone } from './failure.js';
import { addressIn, textOf, type Address, type Sender, type Target } from './port.js';
import type { Session, SessionHeard, Surroundings } from './session.js';
import { ignore, unsent, Wire } from './wire.js';

/**
 * Messages of Sentinels about a new master: the leader of the failover publishes the first at the promotion, all publish the second when
 * they know.
 */
const PROMOTED = '+promoted-slave';
const SWITCHED = '+switch-master';

/** A Sentinel that the user has not named is forgotten after so many failed attempts: others name it again if it lives. */
const MOST_ATTEMPTS = 10;
/** How many Sentinels are listened to at most. */
const MOST_LISTENED_TO = 10;

/**
 * The connection to one Sentinel:
 * - `asking`: the client asks it for the master
 * - `listening`: it has answered, and publishes when another server is the master; `timer`: the next ping
 * - `pausing`: the connection is gone; `timer`: the next attempt
 *
 * `attempt`: how often it was asked since its connection last lasted for a while.
 */
type Listener = { readonly attempt: number } & (
  | { readonly kind: 'asking'; readonly wire: Wire; readonly timer?: undefined }
  | { readonly kind: 'listening'; readonly wire: Wire; readonly timer: Timer }
  | { readonly kind: 'pausing'; readonly wire?: undefined; readonly timer: Timer }
);

/** `isTold`: by a message of a Sentinel, not by an answer. */
type SwitchListener = (master: Address, isTold: boolean) => void;

/**
 * The Sentinels of one client: they name the master, and report when it changes. The client listens to all, since any of them may be silent
 * or gone. It asks them in turn, first the one that named the master last, since the others may not know yet.
 */
export class Sentinels {
  readonly #surroundings: Surroundings;
  readonly #target: Extract<Target, { kind: 'sentinel' }>;
  readonly #switchListeners = new Set<SwitchListener>();
  /** The Sentinels that the user has named, as `host:port`. */
  readonly #given: readonly string[];
  /** These, and those that they have named, in the order in which they are asked. */
  #known: readonly string[];
  readonly #listeners = new Map<string, Listener>();
  #asking: Promise<Address> | undefined;
  /** The master that was named last, by an answer or a message. */
  #master: Address | undefined;
  #isClosed = false;

  constructor(surroundings: Surroundings, target: Extract<Target, { kind: 'sentinel' }>) {
    this.#surroundings = surroundings;
    this.#target = target;
    this.#given = target.sentinels.map(textOf);
    this.#known = this.#given;
  }

  /** Asks for the master, and listens from then on. Rejects if no Sentinel helps, with the reason. */
  master(): Promise<Address> {
    this.#asking ??= this.#askAll().finally(() => (this.#asking = undefined));
    return this.#asking;
  }

  /** Calls back when another server is, or may be, the master, until the returned function is called. */
  onSwitch(listener: SwitchListener): () => void {
    this.#switchListeners.add(listener);
    return () => this.#switchListeners.delete(listener);
  }

  /** Says which handshake delays the answer of who is the master; undefined: none. */
  get opening(): Error | undefined {
    for (const { wire } of this.#asking ? this.#listeners.values() : [])
      if (wire?.opening) return wire.opening;
    return undefined;
  }

  close(): void {
    this.#isClosed = true;
    for (const sentinel of this.#listeners.keys()) this.#become(sentinel);
  }

  async #askAll(): Promise<Address> {
    const said: Error[] = [];
    const former = this.#master;
    for (const sentinel of this.#known) {
      try {
        const master = await this.#ask(sentinel);
        // Another Sentinel may have published news meanwhile that this one does not have yet.
        if (this.#master === former) this.#named(master, sentinel, false);
        for (const other of this.#known)
          if (!this.#listeners.has(other) && this.#listeners.size < MOST_LISTENED_TO)
            this.#ask(other).catch(ignore); // a caller that needs a master asks by itself, and gets the error
        return this.#master ?? master;
      } catch (error) {
        said.push(error as Error);
      }
    }
    throw whyNone('Sentinel', this.#known, said);
  }

  /** Connects to a Sentinel, asks it, and listens to it if it answers. */
  #ask(sentinel: string): Promise<Address> {
    return new Promise((resolve, reject) => {
      if (this.#isClosed) throw new Error('the client is closed');
      const attempt = (this.#listeners.get(sentinel)?.attempt ?? 0) + 1;
      const isCurrent = (): boolean => this.#listeners.get(sentinel)?.wire === wire;
      const wire: Wire = new Wire(this.#surroundings, addressIn(sentinel), 'sentinel', {
        ready: () => {
          this.#askWho(wire).then(
            (master) => {
              if (isCurrent()) this.#listen(sentinel, wire, attempt);
              resolve(master);
            },
            (error: unknown) => {
              wire.end(error as Error);
            },
          );
        },
        message: (channel, text) => {
          const master = this.#announced(channel, text);
          if (master) this.#named(master, sentinel, true);
        },
        ended: (reason = new Error('the Sentinel closed the connection')) => {
          const isDenied = isDenial(reason);
          reject(isDenied ? new RefusedError(`Sentinel: ${reason.message}`) : reason);
          if (isCurrent()) this.#askLater(sentinel);
        },
      });
      this.#become(sentinel, { kind: 'asking', wire, attempt });
    });
  }

  /**
   * The question and the subscription go in one write, so that no switch comes in between. The other Sentinels are asked for before:
   * nothing can be asked after a subscription, and node-redis then takes a list of lists for a message.
   */
  async #askWho(wire: Wire): Promise<Address> {
    const { name, isFixed } = this.#target;
    if (!isFixed) {
      const others = wire.send('sentinel', ['sentinels', name], this.#learnOthers, ignore);
      await others.catch(ignore);
    }
    wire.gather();
    const asked = wire.send<Address>(
      'sentinel',
      ['get-master-addr-by-name', name],
      (reply) => {
        if (!Array.isArray(reply))
          throw new RefusedError(`Sentinel knows no group of servers with the name "${name}"`);
        return this.#reached(String(reply[0]), String(reply[1]));
      },
      (error) => {
        throw error;
      },
    );
    // One by one, since the user may have the permission for only one of them.
    for (const channel of [SWITCHED, PROMOTED]) wire.subscribe([channel], false, ignore);
    return await asked;
  }

  /** Pings the Sentinel now and then: one that died silently reports no switch, and its wire ends when a ping is not answered. */
  #listen(sentinel: string, wire: Wire, attempt: number): void {
    const { clock, silenceLimitMs } = this.#surroundings;
    const timer = clock.setTimer(() => {
      void wire.send('ping', ['holdfast'], ignore, ignore);
      this.#listen(sentinel, wire, 1);
    }, silenceLimitMs);
    this.#become(sentinel, { kind: 'listening', attempt, wire, timer });
  }

  /**
   * Asks the Sentinel again later. It may have published a switch meanwhile: if its answer differs, the Sentinels are asked in their order.
   */
  #askLater(sentinel: string): void {
    const attempt = this.#listeners.get(sentinel)?.attempt ?? 0;
    if (attempt > MOST_ATTEMPTS && !this.#given.includes(sentinel)) {
      this.#known = this.#known.filter((each) => each !== sentinel);
      this.#become(sentinel);
      return;
    }
    const { clock, random } = this.#surroundings;
    const again = (): void => {
      this.#ask(sentinel).then((master) => {
        if (this.#master && textOf(master) !== textOf(this.#master)) this.master().catch(ignore);
      }, ignore);
    };
    const timer = clock.setTimer(again, backOffMs(attempt, random));
    this.#become(sentinel, { kind: 'pausing', attempt, timer });
  }

  /** The one place where a listener changes; undefined: the client stops listening to it. */
  #become(sentinel: string, next?: Listener): void {
    const former = this.#listeners.get(sentinel);
    if (next) this.#listeners.set(sentinel, next);
    else this.#listeners.delete(sentinel);
    this.#surroundings.clock.clearTimer(former?.timer);
    if (former?.wire !== next?.wire) former?.wire?.end();
  }

  /** Notes that `sentinel` has named the master: it is asked first from now on. */
  #named(master: Address, sentinel: string, isTold: boolean): void {
    this.#master = master;
    this.#known = [sentinel, ...this.#known.filter((each) => each !== sentinel)];
    for (const listener of this.#switchListeners) listener(master, isTold);
  }

  readonly #learnOthers = (reply: unknown): void => {
    for (const told of reply as string[][]) {
      const { ip, port, flags = '' } = fieldsOf(told);
      if (ip === undefined || port === undefined || flags.includes('disconnected')) continue;
      const address = textOf(this.#reached(ip, port));
      if (!this.#known.includes(address)) this.#known = [...this.#known, address];
    }
  };

  /** The master that a message names; undefined: it is about another group. */
  #announced(channel: string, text: string): Address | undefined {
    const words = text.split(' ');
    // "<name> <old ip> <old port> <ip> <port>", or "slave <id> <ip> <port> @ <name> <old ip> <old port>"
    const [name, ip, port] = (channel === SWITCHED ? [0, 3, 4] : [5, 2, 3]).map((at) => words[at]);
    return name === this.#target.name && ip && port ? this.#reached(ip, port) : undefined;
  }

  #reached(ip: string, port: string): Address {
    return { host: ip, port: Number(port), ...this.#target.remap(`${ip}:${port}`) };
  }
}

/** One session with the server that Sentinels name: it checks that the server is a master, and ends when another server is. */
export class SentinelSession implements Session {
  readonly isCluster = false;
  readonly #surroundings: Surroundings;
  readonly #sentinels: Sentinels;
  readonly #heard: SessionHeard;
  readonly #stopListening: () => void;
  #state: 'asking' | 'connecting' | 'ready' | 'ended' = 'asking';
  /** The connection to the server, as soon as its address is known. */
  #wire: Wire | undefined;

  constructor(surroundings: Surroundings, sentinels: Sentinels, heard: SessionHeard) {
    this.#surroundings = surroundings;
    this.#sentinels = sentinels;
    this.#heard = heard;
    this.#stopListening = sentinels.onSwitch((master) => {
      if (this.address && textOf(this.address) !== textOf(master)) this.end();
    });
    sentinels.master().then(this.#connect, (error: unknown) => {
      this.end(error as Error);
    });
  }

  get isReady(): boolean {
    return this.#state === 'ready' && this.#wire?.isReady === true;
  }

  get owesAnswer(): boolean {
    return this.#wire?.owesAnswer === true;
  }

  get address(): Address | undefined {
    return this.#wire?.address;
  }

  get opening(): Error | undefined {
    return this.#wire?.opening ?? this.#sentinels.opening;
  }

  readonly send: Sender['send'] = (command, args, read, failed) =>
    this.#wire?.send(command, args, read, failed) ?? unsent('not connected', failed);

  gather(): void {
    this.#wire?.gather();
  }

  flush(): void {
    this.#wire?.flush();
  }

  end(reason?: Error): void {
    if (this.#state === 'ended') return;
    this.#state = 'ended';
    this.#stopListening();
    this.#wire?.end(reason);
    queueMicrotask(() => {
      this.#heard.ended(reason);
    });
  }

  readonly #connect = (master: Address): void => {
    if (this.#state !== 'asking') return;
    this.#state = 'connecting';
    this.#wire = new Wire(this.#surroundings, master, 'commands', {
      ready: this.#askRole,
      ended: (reason) => {
        this.end(reason);
      },
    });
  };

  /**
   * Checks the role, since a Sentinel may not know yet that its master is a replica by now. (By INFO, which users permit already, unlike
   * ROLE.)
   */
  readonly #askRole = (): void => {
    const judge = (info: unknown): void => {
      const isReplica = /^role:slave/m.test(String(info));
      if (isReplica) this.end(new Error('the server that Sentinel names is not its master'));
      if (this.#state !== 'connecting') return;
      this.#state = 'ready';
      this.#heard.ready();
    };
    // If INFO is not permitted, or the server is still loading, the greeting finds out.
    void this.send('info', ['replication'], judge, (error) => {
      if (isReply(error)) judge('');
    });
  };
}

/** The fields of one Sentinel, from a list of names and values. */
function fieldsOf(told: readonly string[]): Partial<Record<string, string>> {
  const pairs = told.map((name, index) => [name, told[index + 1]] as const);
  return Object.fromEntries(pairs.filter((_, index) => index % 2 === 0));
}
