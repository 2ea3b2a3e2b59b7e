// A client of a driver that a test opened, what it has told so far, and what became of each command.
import { expect } from 'vitest';
import type { Argument, Driver, RedisClient, Sender } from '../../src/redis/driver.js';
import { eventually } from './eventually.js';

/** How long a Sentinel may take; there is none here. */
const SILENCE_LIMIT_MS = 5_000;

/** What became of a command: how often each of its two callbacks was called, and with what. */
export interface Fate {
  readonly replies: unknown[];
  readonly failures: Error[];
  /** Settles as the command does. */
  readonly promise: Promise<unknown>;
}

export class OpenedClient implements AsyncDisposable {
  readonly client: RedisClient;
  /** What it told, in order: `connected`, `ready`, `closed`. */
  readonly states: string[] = [];
  readonly failed: Error[] = [];
  /** What `closed` came with. */
  readonly unsaid: Error[] = [];
  readonly messages: string[] = [];
  moved = 0;

  constructor(client: RedisClient) {
    this.client = client;
    const note = (state: string) => (): void => {
      this.states.push(state);
    };
    client.listen({
      connected: note('connected'),
      ready: note('ready'),
      closed: (unsaid) => {
        this.states.push('closed');
        this.unsaid.push(unsaid);
      },
      failed: (error) => {
        this.failed.push(error);
      },
      hindered: (error) => {
        this.failed.push(error);
      },
      outOfStep: (error) => {
        this.failed.push(error);
      },
      message: (channel, payload) => {
        this.messages.push(`${channel}: ${payload}`);
      },
      moved: () => {
        this.moved++;
      },
    });
  }

  /** How often it told this. */
  count(state: 'connected' | 'ready' | 'closed'): number {
    return this.states.filter((other) => other === state).length;
  }

  /** Resolves when it was ready so often. */
  async readyTimes(times: number): Promise<void> {
    await eventually(() => {
      expect(this.count('ready')).toBeGreaterThanOrEqual(times);
      expect(this.client.isReady).toBe(true);
    });
  }

  /** The reply to a command; rejects with its failure. */
  ask(command: Lowercase<string>, ...args: readonly Argument[]): Promise<unknown> {
    return fateOf(this.client, command, ...args).promise;
  }

  /** Resolves to the server's answer to a subscription, once that to the next command is read; 'told' when it stands. */
  async subscribe(channel: string, isSharded = false): Promise<unknown> {
    let answer: unknown;
    this.client.subscribe([channel], isSharded, (refusal) => {
      answer = refusal ?? 'told';
    });
    await this.ask('ping', 'behind it');
    return answer;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.client.close();
  }
}

/** Opens a client; it may not be ready yet, or never become so. */
export function opened(driver: Driver): OpenedClient {
  return new OpenedClient(driver.connect(SILENCE_LIMIT_MS));
}

/** Opens a client and waits until it is ready. */
export async function readyClient(driver: Driver): Promise<OpenedClient> {
  const one = opened(driver);
  await one.readyTimes(1);
  return one;
}

/** Sends a command, and notes what becomes of it. */
export function fateOf(
  sender: Sender,
  command: Lowercase<string>,
  ...args: readonly Argument[]
): Fate {
  const replies: unknown[] = [];
  const failures: Error[] = [];
  const promise = sender.send<unknown>(
    command,
    args,
    (reply) => {
      replies.push(reply);
      return reply;
    },
    (error) => {
      failures.push(error);
      throw error;
    },
  );
  promise.catch(() => undefined); // whoever awaits it hears of that
  return { replies, failures, promise };
}
