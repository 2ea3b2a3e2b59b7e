// A TCP proxy in front of Redis that delays, drops, cuts, holds back and repeats what passes through it.
import { Redis } from 'ioredis';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expectOutages } from './expected-warnings.js';
import { FORWARD, ProxyLink, type Swallowed, type Treatment } from './proxy-link.js';
import { freePort } from './redis-server.js';

/** For how long a port that somebody has taken is waited for. */
const PORT_TAKEN_MS = 10_000;

/** What to do with a command; undefined: pass it on. */
type CommandRule = (args: readonly Buffer[]) => Treatment | undefined;

/** After how many milliseconds each copy of a pub/sub message is passed on; none: it is lost; a promise: it is held back until then. */
type MessageRule = (message: Buffer) => readonly number[] | Promise<readonly number[]>;

/** Which connections are meant: those that have subscribed, the others, or all. */
type Links = 'all' | 'subscribers' | 'others';

/** Starts a proxy in front of the server on `targetPort`. */
export async function startProxy(targetPort: number, targetHost = '127.0.0.1'): Promise<TcpProxy> {
  for (let attempt = 1; ; attempt++) {
    const proxy = new TcpProxy(await freePort(), { host: targetHost, port: targetPort });
    try {
      await proxy.accept(0);
      return proxy;
    } catch (error) {
      if (attempt === 5) throw error;
    }
  }
}

export class TcpProxy implements AsyncDisposable {
  readonly host = '127.0.0.1';
  readonly port: number;
  /** Connections accepted so far. */
  connections = 0;
  /** Bytes of commands received from clients so far. */
  bytesUpstream = 0;
  #target: { host: string; port: number };
  readonly #interceptors: ProxyInterceptors;
  readonly #links = new Set<ProxyLink>();
  readonly #rewrites: { from: Buffer; to: Buffer }[] = [];
  #listener: Server | undefined;
  #swallowed: { what: Swallowed; links: Links } | undefined;
  #treatCommand: CommandRule | undefined;
  #treatMessage: MessageRule | undefined;
  #delay = { upstreamMs: 0, downstreamMs: 0 };
  #subscriptionsDelayMs = 0;

  constructor(port: number, target: { host: string; port: number }) {
    expectOutages();
    this.port = port;
    this.#target = target;
    this.#interceptors = new ProxyInterceptors(target);
  }

  get url(): string {
    return `redis://${this.host}:${this.port}`;
  }

  get openConnections(): number {
    return this.#links.size;
  }

  /** Resets all connections; new ones are accepted as before. */
  cut(): void {
    for (const link of this.#links) link.cut();
  }

  /** Stops listening: new connections are refused, the present ones stay. */
  refuse(): void {
    this.#listener?.close();
    this.#listener = undefined;
  }

  /** Listens again on the same port; where somebody has taken it meanwhile, once it is free. */
  async accept(waitMs = PORT_TAKEN_MS): Promise<void> {
    const endsAtMs = performance.now() + waitMs;
    for (;;) {
      try {
        await this.#listen();
        return;
      } catch (error) {
        if (performance.now() > endsAtMs) throw error;
        await sleep(100);
      }
    }
  }

  async #listen(): Promise<void> {
    if (this.#listener) return;
    const listener = createServer((client) => {
      this.#addLink(client);
    });
    await new Promise<void>((resolve, reject) => {
      listener.once('error', reject).listen(this.port, this.host, resolve);
    });
    this.#listener = listener;
  }

  /** New connections go to the server on this port; the present ones stay where they are. */
  retarget(port: number): void {
    this.#target = { host: this.#target.host, port };
  }

  /**
   * Forwards nothing in either direction, or in one; connections stay open and new ones are accepted. For `subscribers`
   * only where somebody subscribed, or does so meanwhile; for `others` only where nobody has.
   */
  blackhole(what: Swallowed = 'both', links: Links = 'all'): void {
    this.#swallowed = { what, links };
    for (const link of this.#links) this.#swallow(link);
  }

  /** Lets nothing through on the present connections, and neither side notices; new ones are served. */
  swallowConnections(): void {
    for (const link of this.#links) link.isolate();
  }

  /** Lets nothing through on the present connections for subscriptions, and neither side notices. */
  swallowSubscriptions(): void {
    for (const link of this.#links) if (link.isSubscriber) link.isolate();
  }

  /** Whoever subscribes from now on, and only that connection, hears everything so much later. */
  delaySubscriptions(delayMs: number): void {
    this.#subscriptionsDelayMs = delayMs;
  }

  /** Ends the black hole; what was sent meanwhile is forwarded now, or lost. */
  heal(buffered: 'forward' | 'drop' = 'forward'): void {
    this.#swallowed = undefined;
    for (const link of this.#links) link.heal(buffered);
  }

  /** Delays what passes from now on, keeping its order; without arguments, no longer. */
  delay({
    upstreamMs = 0,
    downstreamMs = 0,
  }: { upstreamMs?: number; downstreamMs?: number } = {}): void {
    this.#delay = { upstreamMs, downstreamMs };
    for (const link of this.#links) link.setDelay(this.#delay);
  }

  /** The server's side of all present connections ends; the clients do not notice. */
  halfOpen(): void {
    for (const link of this.#links) link.halfOpen();
  }

  /** The next matching command is executed, its reply is lost and its connection reset. */
  loseReplyTo(match: CommandMatch): Interception {
    return this.#interceptors.add(match, 'lose reply');
  }

  /** The next matching command is sent on, and its connection reset without waiting for the reply. */
  cutAfterForwarding(match: CommandMatch): Interception {
    return this.#interceptors.add(match, 'cut after forwarding');
  }

  /** The next matching command is kept from the server; its connection is reset, or open but silent. */
  holdBack(match: CommandMatch, then: 'cut' | 'silence' = 'cut'): HeldCommand {
    return this.#interceptors.add(match, 'hold back', then);
  }

  /** The next matching command passes as usual, and a copy of it can be delivered later. */
  copyNext(match: CommandMatch): HeldCommand {
    return this.#interceptors.add(match, 'forward');
  }

  /** Each command from now on is treated as the rule says, unless it has been asked for by itself; without a rule, no longer. */
  treatCommands(rule?: CommandRule): void {
    this.#treatCommand = rule;
  }

  /** Each pub/sub message from now on is passed on as often and as late as the rule says; without a rule, as usual. */
  treatMessages(rule?: MessageRule): void {
    this.#treatMessage = rule;
  }

  /** Replaces text in all replies by other text of the same length. */
  rewrite(from: string, to: string): void {
    if (from.length !== to.length) throw new Error(`"${to}" has another length than "${from}"`);
    this.#rewrites.push({ from: Buffer.from(from), to: Buffer.from(to) });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.refuse();
    this.cut();
    await new Promise(setImmediate);
  }

  #addLink(client: Socket): void {
    this.connections++;
    const server = connect(this.#target);
    const link = new ProxyLink(client, server, {
      treat: (command, args) => {
        this.bytesUpstream += command.length;
        if (link.isSubscriber && this.#subscriptionsDelayMs > 0)
          link.setDelay({ upstreamMs: 0, downstreamMs: this.#subscriptionsDelayMs });
        return this.#interceptors.treat(args) ?? this.#treatCommand?.(args) ?? FORWARD;
      },
      copies: (message) => this.#treatMessage?.(message) ?? [0],
      onSubscribe: () => {
        this.#swallow(link);
      },
      rewrite: (reply) => this.#rewritten(reply),
      onEnd: () => this.#links.delete(link),
    });
    this.#links.add(link);
    link.setDelay(this.#delay);
    this.#swallow(link);
  }

  #swallow(link: ProxyLink): void {
    if (!this.#swallowed) return;
    const { what, links } = this.#swallowed;
    if (links === 'all' || link.isSubscriber === (links === 'subscribers')) link.isolate(what);
  }

  #rewritten(reply: Buffer): Buffer {
    for (const { from, to } of this.#rewrites) {
      for (let at = reply.indexOf(from); at !== -1; at = reply.indexOf(from, at + to.length)) {
        to.copy(reply, at);
      }
    }
    return reply;
  }
}

// What a proxy has been asked to do with the next command that matches, and the command itself for later.

/** Which command is meant: one whose arguments, joined by spaces, contain the text or match. */
type CommandMatch = string | RegExp;

export interface Interception {
  /** Resolves when the command came by and was treated as asked. */
  readonly happened: Promise<void>;
}

export interface HeldCommand extends Interception {
  /** Sends the very same command to the server now, over a connection of its own; resolves to the reply. */
  deliver(): Promise<unknown>;
}

interface Interceptor {
  readonly match: CommandMatch;
  take(args: Buffer[]): Treatment;
}

class ProxyInterceptors {
  readonly #server: { host: string; port: number };
  readonly #interceptors = new Set<Interceptor>();

  constructor(server: { host: string; port: number }) {
    this.#server = server;
  }

  /** Treats the next matching command in this way, once. */
  add(match: CommandMatch, kind: Treatment['kind'], then: Treatment['then'] = 'cut'): HeldCommand {
    const { promise: happened, resolve: done } = promiseWithResolve();
    let command: Buffer[] | undefined;
    this.#interceptors.add({
      match,
      take(args) {
        command = args.map((arg) => Buffer.from(arg));
        return { kind, then, done };
      },
    });
    return {
      happened,
      deliver: async () => {
        if (!command) throw new Error(`no command matching ${String(match)} came by`);
        return this.#send(command);
      },
    };
  }

  /** What was asked for with this command, if anything was; an interceptor that matches is used up. */
  treat(args: Buffer[]): Treatment | undefined {
    if (this.#interceptors.size === 0) return undefined;
    const text = Buffer.concat(args.flatMap((arg) => [arg, Buffer.from(' ')])).toString('latin1');
    for (const interceptor of this.#interceptors) {
      if (!matches(text, interceptor.match)) continue;
      this.#interceptors.delete(interceptor);
      return interceptor.take(args);
    }
    return undefined;
  }

  async #send([name, ...args]: Buffer[]): Promise<unknown> {
    const redis = new Redis({ ...this.#server, retryStrategy: () => null });
    try {
      return await redis.call(String(name), ...args);
    } finally {
      redis.disconnect();
    }
  }
}

function matches(text: string, match: CommandMatch): boolean {
  return typeof match === 'string' ? text.includes(match) : match.test(text);
}

function promiseWithResolve(): { promise: Promise<void>; resolve: () => void } {
  let resolve!: () => void;
  const promise = new Promise<void>((resolvePromise) => {
    resolve = resolvePromise;
  });
  return { promise, resolve };
}
