// The way to Redis for what counts only when replicas have acknowledged it: a connection of its own, since WAIT keeps
// everything behind it waiting. In a cluster WAIT must go to the very node that ran the script, so redirections are followed here.

import type { TimeLimit } from '../runtime/clock.js';
import { Acknowledgements } from './acknowledgements.js';
import type { Argument, ClusterNode, Sender } from './driver.js';
import { assertWanted, isUnknownScript, redirectionOf, UnsentError } from './failure.js';
import type { Link } from './link.js';
import { denied } from './script-denial.js';
import type { Script } from './scripts.generated.js';
import { whoHas } from './who-has.js';

/** How often a command is sent anew to where it was redirected. */
const MAX_REDIRECTIONS = 5;

/** For which part of the caller's time acknowledgements are waited for: so they are counted before the caller gives up. */
const WAITING_PART = 0.9;

export interface ReplicatedOptions {
  /** How many replicas must have acknowledged what counts only then; 0: none. */
  replicas: number;
  /** Bounds how long the replicas may take, besides the caller's own limit. */
  commandTimeoutMs: number;
  /** A connection is dropped and made anew when it does not answer for this long. */
  silenceLimitMs: number;
}

/** A script and what it is called with. */
export interface ScriptCall {
  readonly script: Script;
  /** The script's keys, which are all in one slot. */
  readonly keys: readonly string[];
  readonly args: readonly Argument[];
}

export class Replicated {
  readonly #options: ReplicatedOptions;
  readonly #link: Link;
  readonly #connections = new WeakMap<Sender, Acknowledgements>();

  constructor(link: Link, options: ReplicatedOptions) {
    this.#link = link;
    this.#options = options;
  }

  close(): Promise<void> {
    return this.#link.close();
  }

  /**
   * Runs a script once and reads its reply.
   *
   * @param isNeeded - whether a reply needs to be acknowledged
   * @throws UnavailableError too few replicas acknowledged the script in time, though it ran
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
    let asked: ClusterNode | undefined;
    for (let redirections = 0; ; redirections++) {
      const node = asked ?? whoHas(key, this.#link.client) ?? (await this.#lookFor(key));
      const [command, text] = isKnown
        ? (['evalsha', script.sha1] as const)
        : (['eval', script.source] as const);
      const send = (): Promise<T> => {
        if (this.#link.isReady) asked?.asking();
        const parts = [text, keys.length, ...keys, ...args];
        return this.#link.ask(command, parts, read, undefined, node);
      };
      try {
        return await this.#on(node).run(send, isNeeded, limitMs, () => limit.leftMs <= 0);
      } catch (error) {
        const redirection = redirectionOf(error);
        if (isKnown && isUnknownScript(error)) {
          assertWanted(limit);
          isKnown = false;
        } else if (!redirection || redirections === MAX_REDIRECTIONS) {
          const look = (each: string): Promise<unknown> =>
            this.#link.ask('exists', [each], Number, undefined, node);
          await denied(error, script, keys, look);
          throw error;
        }
        asked = redirection?.kind === 'ASK' ? this.#nodeCalled(redirection.address) : undefined;
        if (redirection && !asked) await this.#lookFor(key);
      }
    }
  }

  #on(node: Sender): Acknowledgements {
    let acknowledgements = this.#connections.get(node);
    if (!acknowledgements) {
      const { replicas, silenceLimitMs } = this.#options;
      acknowledgements = new Acknowledgements(node, this.#link, replicas, silenceLimitMs);
      this.#connections.set(node, acknowledgements);
    }
    return acknowledgements;
  }

  #nodeCalled(address: string): ClusterNode | undefined {
    const { cluster } = this.#link.client;
    return cluster?.node(cluster.reachedAt(address));
  }

  /** Any command with the key makes the client follow the redirection, and learn where the slot is. */
  async #lookFor(key: string): Promise<Sender> {
    await this.#link.ask('exists', [key], () => undefined);
    const node = whoHas(key, this.#link.client);
    if (!node) throw new UnsentError('the node that has the key is not known');
    return node;
  }
}
