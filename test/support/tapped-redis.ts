// A server in memory behind a tap: tests see what one client sends, hold back what it is answered, replace that, and say messages of their own.
import {
  type Argument,
  type Connection,
  type Heard,
  LIBRARY,
  type Library,
  type LibrarySource,
} from '../../src/redis/port.js';
import { scripts } from '../../src/redis/scripts.generated.js';
import type { MemoryRedis } from '../../src/testing/memory-redis.js';

/** A script that was sent, with its keys and arguments, or a command. */
export interface Sent {
  readonly name: string;
  readonly keys: readonly string[];
  readonly args: readonly string[];
}

type ScriptName = keyof typeof scripts;

/** To be given as `redis` to one client. */
export class TappedRedis implements LibrarySource {
  readonly sent: Sent[] = [];
  /** Every channel that was subscribed, and every one that was unsubscribed with a "-" before it, in order. */
  readonly subscribed: string[] = [];
  readonly #memory: MemoryRedis;
  readonly #replaced = new Map<string, unknown>();
  readonly #held = new Map<string, Promise<void>>();
  #subscriber: Heard | undefined;
  #isDeaf = false;
  #isCut = false;
  readonly #connections = new Set<Connection>();

  constructor(memory: MemoryRedis) {
    this.#memory = memory;
  }

  /** All that were sent of one script, or command. */
  all(name: ScriptName): Sent[] {
    return this.sent.filter((sent) => sent.name === name);
  }

  last(name: ScriptName): Sent {
    const last = this.all(name).at(-1);
    if (!last) throw new Error(`${name} was not sent`);
    return last;
  }

  /** The next call of this script is answered so, or by an error, whatever the server says. */
  answerNext(name: ScriptName, reply: unknown): void {
    this.#replaced.set(name, reply);
  }

  /** What this script is answered stays away until the function that this returns is called. */
  holdAnswers(name: ScriptName): () => void {
    let release!: () => void;
    this.#held.set(name, new Promise((resolve) => (release = resolve)));
    return () => {
      this.#held.delete(name);
      release();
    };
  }

  /** From now on no message reaches the client but those that a test says. */
  deafen(): void {
    this.#isDeaf = true;
  }

  /** From now on this client does not reach the server, which others do, until `mend`. */
  cut(): void {
    this.#isCut = true;
    for (const connection of this.#connections) void connection.close();
    this.#connections.clear();
  }

  mend(): void {
    this.#isCut = false;
  }

  /** Says a message on the channel where the client hears of its grants. */
  async tellGrant(payload: string): Promise<void> {
    await this.tell(this.grantChannel, payload);
  }

  async tell(channel: string, payload: string): Promise<void> {
    this.#subscriber?.message(channel, payload);
    await this.#memory.advance(0);
  }

  get grantChannel(): string {
    return this.subscribed.find((channel) => channel.startsWith('holdfast_grants:')) ?? '';
  }

  [LIBRARY](): Library {
    const library = this.#memory[LIBRARY]();
    return {
      ...library,
      open: (address, purpose, heard) => {
        if (purpose === 'subscriptions') this.#subscriber = heard;
        const message = (channel: string, payload: string): void => {
          if (!this.#isDeaf) heard.message(channel, payload);
        };
        const connection = library.open(address, purpose, { ...heard, message });
        this.#connections.add(connection);
        if (this.#isCut) queueMicrotask(() => void connection.close()); // not while the attempt begins
        return this.#tapped(connection);
      },
    };
  }

  #tapped(connection: Connection): Connection {
    return {
      get bytesRead() {
        return connection.bytesRead;
      },
      isTls: false,
      send: (command, args, read, failed) => {
        const sent = sentBy(command, args);
        this.sent.push(sent);
        const answered = connection.send(
          command,
          args,
          (reply) => reply,
          (error) => Promise.reject(error),
        );
        return answered.then((reply) => this.#answer(sent.name, reply)).then(read, failed);
      },
      gather: () => {
        connection.gather();
      },
      flush: () => {
        connection.flush();
      },
      subscribe: (channels, isSharded, answered) => {
        this.subscribed.push(...channels);
        connection.subscribe(channels, isSharded, answered);
      },
      unsubscribe: (channel, isSharded, failed) => {
        this.subscribed.push(`-${channel}`);
        connection.unsubscribe(channel, isSharded, failed);
      },
      close: () => connection.close(),
    };
  }

  async #answer(name: string, reply: unknown): Promise<unknown> {
    await this.#held.get(name);
    if (!this.#replaced.has(name)) return reply;
    const replaced = this.#replaced.get(name);
    this.#replaced.delete(name);
    if (replaced instanceof Error) throw replaced;
    return replaced;
  }
}

function sentBy(command: string, args: readonly Argument[]): Sent {
  if (command !== 'evalsha') return { name: command, keys: [], args: args.map(String) };
  const [sha1, keyCount, ...rest] = args.map(String);
  const [name = ''] = Object.entries(scripts).find(([, script]) => script.sha1 === sha1) ?? [];
  return { name, keys: rest.slice(0, Number(keyCount)), args: rest.slice(Number(keyCount)) };
}
