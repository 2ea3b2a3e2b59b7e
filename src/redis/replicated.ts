// The way to Redis for what counts only when replicas have acknowledged it: a connection of its own, since WAIT keeps
// everything behind it waiting. In a cluster WAIT must go to the very node that ran the script, so redirections are followed here.

import type { Redis } from 'ioredis';
import type { TimeLimit } from '../runtime/clock.js';
import { Acknowledgements } from './acknowledgements.js';
import { isCluster } from './clients.js';
import { nodeCalled, nodeWith, redirectionOf } from './cluster-nodes.js';
import { isUnknownScript, UnsentError } from './failure.js';
import type { Link } from './link.js';
import { scriptSender, type SendScript } from './script-command.js';
import { scriptDenial } from './script-denial.js';
import type { Script } from './scripts.generated.js';

/** How often a command is sent anew to where it was redirected. */
const MAX_REDIRECTIONS = 5;

/** The acknowledgements are waited for so long at most, of what is left: so they are counted before the caller gives up. */
const WAITING_PART = 0.9;

export interface ReplicatedOptions {
  /** How many replicas must have acknowledged a script. */
  replicas: number;
  /** Bounds how long that may take, besides the caller's own limit. */
  commandTimeoutMs: number;
  silenceLimitMs: number;
}

/** A script and what it is called with. */
export interface ScriptCall {
  readonly script: Script;
  /** All in one slot. */
  readonly keys: readonly string[];
  readonly args: readonly (string | number)[];
}

export class Replicated {
  readonly #options: ReplicatedOptions;
  readonly #link: Link;
  readonly #sendScript: SendScript;
  readonly #connections = new WeakMap<Redis, Acknowledgements>();

  constructor(link: Link, options: ReplicatedOptions) {
    this.#link = link;
    this.#sendScript = scriptSender(link.client);
    this.#options = options;
  }

  close(): Promise<void> {
    return this.#link.close();
  }

  /**
   * Runs a script once and reads its reply.
   *
   * @param isNeeded - whether a reply needs to be acknowledged
   * @throws UnavailableError too few replicas acknowledged it in time, though it ran
   */
  async run<T>(
    { script, keys, args }: ScriptCall,
    read: (reply: unknown) => T,
    isNeeded: (reply: T) => boolean,
    limit: TimeLimit,
  ): Promise<T> {
    const limitMs = Math.min(this.#options.commandTimeoutMs, limit.leftMs * WAITING_PART);
    const [key = ''] = keys;
    let isKnown = true;
    let asked: Redis | undefined;
    for (let redirections = 0; ; redirections++) {
      const isAsking = asked !== undefined;
      const send = async (redis: Redis): Promise<T> => {
        if (isAsking) redis.asking().catch(() => undefined); // the script's own error tells
        return read(await this.#sendScript(redis, script, isKnown, keys, args));
      };
      const redis = asked ?? this.#nodeWith(key) ?? (await this.#lookFor(key));
      try {
        return await this.#on(redis).run(send, isNeeded, limitMs, () => limit.leftMs <= 0);
      } catch (error) {
        const redirection = redirectionOf(error);
        if (isKnown && isUnknownScript(error)) isKnown = false;
        else if (!redirection || redirections === MAX_REDIRECTIONS)
          throw scriptDenial(error, script) ?? error;
        asked = redirection?.kind === 'ASK' ? this.#nodeCalled(redirection.address) : undefined;
        if (redirection && !asked) await this.#lookFor(key);
      }
    }
  }

  #on(redis: Redis): Acknowledgements {
    let acknowledgements = this.#connections.get(redis);
    if (!acknowledgements) {
      const { replicas, silenceLimitMs } = this.#options;
      acknowledgements = new Acknowledgements(redis, this.#link, replicas, silenceLimitMs);
      this.#connections.set(redis, acknowledgements);
    }
    return acknowledgements;
  }

  #nodeWith(key: string): Redis | undefined {
    const { client } = this.#link;
    return isCluster(client) ? nodeWith(client, key) : client;
  }

  #nodeCalled(address: string): Redis | undefined {
    const { client } = this.#link;
    return isCluster(client) ? nodeCalled(client, address) : undefined;
  }

  /** Any command with the key makes ioredis follow the redirection, and learn where the slot is. */
  async #lookFor(key: string): Promise<Redis> {
    await this.#link.ask(
      (client) => client.exists(key),
      (count) => count,
    );
    const node = this.#nodeWith(key);
    if (!node) throw new UnsentError('the node that has the key is not known');
    return node;
  }
}
