// What a proxy has been asked to do with the next command that matches, and the command itself for later.
import { Redis } from 'ioredis';

/** Which command is meant: one whose arguments, joined by spaces, contain the text or match. */
export type CommandMatch = string | RegExp;

export interface Interception {
  /** Resolves when the command came by and was treated as asked. */
  readonly happened: Promise<void>;
}

export interface HeldCommand extends Interception {
  /** Sends the very same command to the server now, over a connection of its own; resolves to the reply. */
  deliver(): Promise<unknown>;
}

export interface Treatment {
  readonly kind: 'forward' | 'refuse' | 'lose reply' | 'hold back' | 'cut after forwarding';
  /** What becomes of the connection afterwards, unless the command is just forwarded. */
  readonly then: 'cut' | 'silence';
  /** Of a command that is refused: a script that the server runs in its place, whose reply is passed on. */
  readonly instead?: string;
  done(): void;
}

/** It passes as usual. */
export const FORWARD: Treatment = { kind: 'forward', then: 'cut', done: () => undefined };

interface Interceptor {
  readonly match: CommandMatch;
  take(args: Buffer[]): Treatment;
}

export class ProxyInterceptors {
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
