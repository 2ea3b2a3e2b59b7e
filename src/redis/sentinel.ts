// The master that Sentinels name. Each client listens to all of them, so that a master that is replaced is left at once, before it
// knows itself that it is none any more: until then it would go on granting locks, beside the new one.

import type { Timer } from '../runtime/clock.js';
import {
  failureKind,
  HungUpError,
  isDenial,
  isMereLoss,
  isUnreachable,
  noneReached,
  RefusedError,
  replyError,
} from './failure.js';
import { addressIn, textOf, type Address, type Sender, type Target } from './port.js';
import { backOffMs, type Session, type SessionHeard, type Surroundings } from './session.js';
import { ignore, unsent, Wire } from './wire.js';

export type SentinelTarget = Extract<Target, { kind: 'sentinel' }>;

/** What Sentinels publish when another server is the master: the one that led the failover as soon as it is promoted, all when they know. */
const PROMOTED = '+promoted-slave';
const SWITCHED = '+switch-master';

const NO_MASTER = 'the server that Sentinel names is not its master, or closed the connection';

/** A Sentinel whose connection ends sooner than that is asked again later each time. */
const STANDS_MS = 10_000;

/** One that its user has not named is forgotten when it was asked in vain so often: others name it again if it lives. */
const MOST_ATTEMPTS = 10;

/** How many Sentinels are listened to at most. */
const MOST_LISTENED_TO = 10;

/**
 * The connection to one Sentinel:
 * - `asking`: it is asked who the master is
 * - `listening`: it has answered, and tells when another server is the master
 * - `pausing`: it is gone, and is asked again soon
 */
type Listener =
  | { readonly kind: 'asking' | 'listening'; readonly wire: Wire }
  | { readonly kind: 'pausing'; readonly timer: Timer };

/** `isTold`: a Sentinel has told so by itself, unasked. */
type SwitchListener = (master: Address, isTold: boolean) => void;

/**
 * The Sentinels of one client: who is the master, and when that changes. All are listened to, since one may be deaf, or silent, or gone. They are
 * asked in turn; first the one that told or answered last, since the others may not have heard.
 */
export class Sentinels {
  readonly #surroundings: Surroundings;
  readonly #target: SentinelTarget;
  readonly #switchListeners = new Set<SwitchListener>();
  /** All that are known, as `host:port`, in the order in which they are asked. */
  #known: string[];
  readonly #listeners = new Map<string, Listener>();
  /** The question that is under way. */
  #asking: Promise<Address> | undefined;
  /** The master that was named last, by an answer or a message. */
  #master: Address | undefined;
  /** How many messages named a master so far. */
  #toldCount = 0;
  #pingTimer: Timer | undefined;
  #isClosed = false;

  constructor(surroundings: Surroundings, target: SentinelTarget) {
    this.#surroundings = surroundings;
    this.#target = target;
    this.#known = target.sentinels.map(textOf);
  }

  /** Asks who the master is, and listens from then on. Rejects with what is wrong with the Sentinels. */
  master(): Promise<Address> {
    this.#asking ??= this.#askAll().finally(() => (this.#asking = undefined));
    return this.#asking;
  }

  /** Calls back when another server is the master, or may be; until the function that it returns is called. */
  onSwitch(listener: SwitchListener): () => void {
    this.#switchListeners.add(listener);
    return () => this.#switchListeners.delete(listener);
  }

  close(): void {
    this.#isClosed = true;
    this.#surroundings.clock.clearTimer(this.#pingTimer);
    for (const sentinel of [...this.#listeners.keys()]) this.#become(sentinel, undefined);
  }

  async #askAll(): Promise<Address> {
    const { sentinels } = this.#target;
    const said: { error: Error; sentinel: string }[] = [];
    const toldCount = this.#toldCount;
    for (const sentinel of [...this.#known]) {
      try {
        const master = await this.#ask(sentinel);
        // Another Sentinel may have told meanwhile that this one has not heard yet.
        if (this.#toldCount === toldCount) this.#named(master, sentinel);
        this.#listenToAll();
        return this.#master ?? master;
      } catch (error) {
        said.push({ error: error as Error, sentinel });
      }
      if (this.#isClosed) break;
    }
    throw explained(this.#target.name, said, sentinels.map(textOf));
  }

  /** Makes a connection to a Sentinel, asks it, and listens to it if it answers. */
  #ask(sentinel: string, attempt = 0): Promise<Address> {
    return new Promise((resolve, reject) => {
      const { clock } = this.#surroundings;
      const beganAtMs = clock.nowMs();
      const wire: Wire = new Wire(this.#surroundings, addressIn(sentinel), 'sentinel', {
        ready: () => {
          this.#askWho(wire).then(
            (master) => {
              if (this.#isOf(sentinel, wire)) this.#become(sentinel, { kind: 'listening', wire });
              resolve(master);
            },
            (error: unknown) => {
              wire.end(error as Error);
            },
          );
        },
        message: (channel, text) => {
          const master = this.#announced(channel, text);
          if (!master) return;
          this.#toldCount++;
          this.#named(master, sentinel, true);
        },
        ended: (reason) => {
          reject(reason ?? new Error('the Sentinel closed the connection'));
          if (!this.#isOf(sentinel, wire)) return;
          const hasStood = clock.nowMs() - beganAtMs > STANDS_MS;
          this.#askLater(sentinel, hasStood ? 1 : attempt + 1);
        },
      });
      this.#become(sentinel, { kind: 'asking', wire });
    });
  }

  /** The question and the subscription go in one write, so that no switch comes in between. (Under RESP2 nothing can be asked after it.) */
  #askWho(wire: Wire): Promise<Address> {
    const { name, isFixed } = this.#target;
    wire.gather();
    if (!isFixed)
      wire.send('sentinel', ['sentinels', name], this.#learnOthers, ignore).catch(ignore);
    const asked = wire.send<Address>(
      'sentinel',
      ['get-master-addr-by-name', name],
      (reply) => {
        if (!Array.isArray(reply)) throw new Error(UNKNOWN_NAME);
        return this.#reached(String(reply[0]), String(reply[1]));
      },
      (error) => {
        throw error;
      },
    );
    // One by one, since only one of them may be permitted.
    for (const channel of [SWITCHED, PROMOTED]) wire.subscribe([channel], false, ignore);
    return asked;
  }

  #listenToAll(): void {
    if (this.#isClosed) return;
    const { clock, silenceLimitMs } = this.#surroundings;
    this.#pingTimer ??= clock.setTimer(this.#pingAll, silenceLimitMs);
    for (const sentinel of this.#known)
      if (!this.#listeners.has(sentinel) && this.#listeners.size < MOST_LISTENED_TO)
        this.#ask(sentinel).catch(ignore); // who needs a master asks by itself, and tells what is wrong
  }

  /** A Sentinel that died without a word tells of no switch: its wire ends if this is not answered. */
  readonly #pingAll = (): void => {
    const { clock, silenceLimitMs } = this.#surroundings;
    this.#pingTimer = clock.setTimer(this.#pingAll, silenceLimitMs);
    for (const listener of this.#listeners.values())
      if (listener.kind === 'listening')
        void listener.wire.send('ping', ['holdfast'], ignore, ignore);
  };

  /** While its connection was gone it may have told of a switch: then whoever told last is asked, and this one only after that. */
  #askLater(sentinel: string, attempt: number): void {
    if (
      attempt > MOST_ATTEMPTS &&
      !this.#target.sentinels.some((each) => textOf(each) === sentinel)
    ) {
      this.#known = this.#known.filter((each) => each !== sentinel);
      this.#become(sentinel, undefined);
      return;
    }
    const { clock, random } = this.#surroundings;
    const again = (): void => {
      this.#ask(sentinel, attempt).then((master) => {
        if (this.#master && textOf(master) !== textOf(this.#master)) this.master().catch(ignore);
      }, ignore);
    };
    const timer = clock.setTimer(again, backOffMs(attempt, random));
    this.#become(sentinel, { kind: 'pausing', timer });
  }

  #isOf(sentinel: string, wire: Wire): boolean {
    const listener = this.#listeners.get(sentinel);
    return listener !== undefined && 'wire' in listener && listener.wire === wire;
  }

  /** The one place where a listener changes; undefined: it is not listened to any more. */
  #become(sentinel: string, next: Listener | undefined): void {
    const former = this.#listeners.get(sentinel);
    if (next && !this.#isClosed) this.#listeners.set(sentinel, next);
    else this.#listeners.delete(sentinel);
    if (former && 'timer' in former) this.#surroundings.clock.clearTimer(former.timer);
    const kept = next && 'wire' in next && !this.#isClosed ? next.wire : undefined;
    for (const listener of [former, next])
      if (listener && 'wire' in listener && listener.wire !== kept) listener.wire.end();
  }

  /** `sentinel` has named the master: it is asked first from now on. */
  #named(master: Address, sentinel: string, isTold = false): void {
    this.#master = master;
    this.#known = [sentinel, ...this.#known.filter((each) => each !== sentinel)];
    for (const listener of this.#switchListeners) listener(master, isTold);
  }

  readonly #learnOthers = (reply: unknown): void => {
    for (const fields of Array.isArray(reply) ? (reply as unknown[]) : []) {
      const { ip, port, flags = '' } = fieldsOf(fields);
      if (ip === undefined || port === undefined || flags.includes('disconnected')) continue;
      const address = textOf(this.#reached(ip, port));
      if (!this.#known.includes(address)) this.#known.push(address);
    }
  };

  /** The master that a message names; undefined: it is about another group. */
  #announced(channel: string, text: string): Address | undefined {
    const words = text.split(' ');
    // "<name> <old ip> <old port> <ip> <port>", or "slave <id> <ip> <port> @ <name> <old ip> <old port>"
    const [name, ip, port] =
      channel === SWITCHED ? [words[0], words[3], words[4]] : [words[5], words[2], words[3]];
    return name === this.#target.name && ip && port ? this.#reached(ip, port) : undefined;
  }

  #reached(ip: string, port: string): Address {
    const announced = `${ip}:${port}`;
    return this.#target.remap(announced) ?? addressIn(announced);
  }
}

/** One session with the server that Sentinels name: asked for, connected to, asked whether it is a master, and left when another one is. */
export class SentinelSession implements Session {
  readonly isCluster = false;
  readonly #surroundings: Surroundings;
  readonly #heard: SessionHeard;
  readonly #stopListening: () => void;
  #state:
    | { readonly kind: 'asking' }
    | { readonly kind: 'connecting' | 'ready'; readonly wire: Wire }
    | { readonly kind: 'ended'; readonly wire: Wire | undefined } = { kind: 'asking' };

  constructor(surroundings: Surroundings, sentinels: Sentinels, heard: SessionHeard) {
    this.#surroundings = surroundings;
    this.#heard = heard;
    this.#stopListening = sentinels.onSwitch((master) => {
      const { address } = this;
      if (address && textOf(address) !== textOf(master)) this.end();
    });
    sentinels.master().then(
      (master) => {
        if (this.#state.kind === 'asking') this.#connect(master);
      },
      (error: unknown) => {
        this.end(error as Error);
      },
    );
  }

  get isReady(): boolean {
    return this.#state.kind === 'ready' && this.#state.wire.isReady;
  }

  get owesAnswer(): boolean {
    return this.#state.kind === 'ready' && this.#state.wire.owesAnswer;
  }

  get address(): Address | undefined {
    return 'wire' in this.#state ? this.#state.wire?.address : undefined;
  }

  readonly send: Sender['send'] = (command, args, read, failed) => {
    if (this.#state.kind !== 'ready') return unsent('not connected', failed);
    return this.#state.wire.send(command, args, read, failed);
  };

  gather(): void {
    if (this.#state.kind === 'ready') this.#state.wire.gather();
  }

  flush(): void {
    if (this.#state.kind === 'ready') this.#state.wire.flush();
  }

  end(reason?: Error): void {
    if (this.#state.kind === 'ended') return;
    const wire = 'wire' in this.#state ? this.#state.wire : undefined;
    this.#state = { kind: 'ended', wire };
    this.#stopListening();
    wire?.end(reason);
    queueMicrotask(() => {
      this.#heard.ended(reason);
    });
  }

  #connect(master: Address): void {
    const wire: Wire = new Wire(this.#surroundings, master, 'commands', {
      ready: () => {
        this.#askRole(wire);
      },
      ended: (reason) => {
        const isUnsaid = reason === undefined || isMereLoss(reason);
        const why =
          reason instanceof HungUpError
            ? `at the server that Sentinel names ${reason.message}`
            : NO_MASTER;
        this.end(isUnsaid && this.#state.kind === 'connecting' ? new Error(why) : reason);
      },
    });
    this.#state = { kind: 'connecting', wire };
  }

  /** A Sentinel may not know yet that its master is a replica by now. (By INFO: users have been told to permit that, and ROLE they have not.) */
  #askRole(wire: Wire): void {
    const begin = (): void => {
      if (this.#state.kind !== 'connecting') return;
      this.#state = { kind: 'ready', wire };
      this.#heard.ready();
    };
    void wire.send(
      'info',
      ['replication'],
      (info) => {
        if (/^role:slave/m.test(String(info))) this.end(new Error(NO_MASTER));
        else begin();
      },
      (error) => {
        const kind = failureKind(error);
        // It is not permitted, or the server is still loading: the greeting tells.
        if (kind !== 'unanswered' && kind !== 'unsent') begin();
      },
    );
  }
}

const UNKNOWN_NAME = 'No such master with that name';
const NO_SENTINEL = /unknown command '?sentinel/i;

/** Why no Sentinel has named a master: what says most. */
function explained(
  name: string,
  said: readonly { readonly error: Error; readonly sentinel: string }[],
  given: readonly string[],
): Error {
  const errors = said.map(({ error }) => error);
  const denial = errors.find(({ message }) => isDenial(message));
  if (denial) return new RefusedError(`Sentinel: ${denial.message}`);
  if (errors.some(({ message }) => message.includes(UNKNOWN_NAME)))
    return new RefusedError(`Sentinel knows no group of servers with the name "${name}"`);
  const noSentinel = said.find(({ error }) => NO_SENTINEL.test(error.message));
  if (noSentinel) {
    const { error: cause, sentinel } = noSentinel;
    const words = `what listens at ${sentinel} is no Sentinel (${cause.message})`;
    return replyError(words, { cause });
  }
  const reason = errors.find((error) => !isMereLoss(error) && !isUnreachable(error));
  if (reason) return reason;
  return noneReached('Sentinel', [...given, ...said.map(({ sentinel }) => sentinel)], errors);
}

/** The fields of one Sentinel: a list of names and values (RESP2), a map, or an object. */
function fieldsOf(fields: unknown): Readonly<Record<string, string | undefined>> {
  if (!Array.isArray(fields))
    return Object.fromEntries(
      fields instanceof Map ? fields : Object.entries(fields as object),
    ) as Record<string, string>;
  const list = fields.map(String);
  return Object.fromEntries(
    list.flatMap((name, index) => (index % 2 === 0 ? [[name, list[index + 1]]] : [])),
  );
}
