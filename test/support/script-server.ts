// The scripts of lua/ on a server in memory, in a time of the test's own.
import { SortedSet } from '../../src/testing/keyspace.js';
import { evaluate, type Reply } from '../../src/testing/lua-runtime.js';
import { memoryScripts } from '../../src/testing/scripts.memory.generated.js';
import { MemoryServer, type Peer } from '../../src/testing/server.js';
import type { Clock } from '../../src/runtime/clock.js';

export type ScriptName = keyof typeof memoryScripts;

/** How long a key is still there, in milliseconds, and its content. */
type Kept = readonly [ttlMs: number, content: unknown];

export class ScriptServer {
  /** Since 1970. */
  nowMs = Date.UTC(2030, 0);
  readonly #server = new MemoryServer({ wallMs: () => this.nowMs } as Clock);
  readonly #peer: Peer;

  /** `channels`: where somebody listens. */
  constructor(channels: readonly string[] = []) {
    const peerOn = (subscribed: readonly string[]): Peer => ({
      classic: new Set(subscribed),
      sharded: new Set(subscribed),
      lastWriteMs: 0,
      backlog: undefined,
      message: () => undefined,
      hungUp: () => undefined,
    });
    this.#peer = peerOn([]);
    this.#server.accept(this.#peer);
    this.#server.accept(peerOn(channels));
  }

  /** `instead`: answers commands in the server's place; undefined: it leaves that to the server. */
  run(
    script: ScriptName,
    keys: readonly string[],
    args: readonly (string | number)[],
    instead: (words: readonly string[]) => Reply | undefined = () => undefined,
  ): Reply {
    return evaluate(memoryScripts[script], keys, args.map(String), (words) => {
      const answer = instead(words);
      return answer === undefined ? this.command(...words) : answer;
    });
  }

  command(name = '', ...args: readonly (string | number)[]): Reply {
    let answer: Reply = null;
    this.#server.take(this.#peer, name, args.map(String), (reply) => (answer = reply));
    return answer;
  }

  /** -1: it has no end. */
  get state(): Record<string, Kept> {
    const { keys } = this.#server;
    const kept = keys.names.map((name) => {
      const { value, untilMs } = keys.entry(name)!;
      const ttlMs = untilMs === Infinity ? -1 : untilMs - keys.nowMs;
      if (value instanceof Map) return [name, [ttlMs, Object.fromEntries(value)]];
      if (!(value instanceof SortedSet)) return [name, [ttlMs, value]];
      return [name, [ttlMs, value.members.map((each) => [each, String(value.score(each))])]];
    });
    return Object.fromEntries(kept) as Record<string, Kept>;
  }
}
