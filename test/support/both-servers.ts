// A real server and one in memory, whose clocks stand still and are moved together: what is played on both is compared.
import { Redis, type ChainableCommander } from 'ioredis';
import { expect } from 'vitest';
import { isReplyOf } from '../../src/redis/replies.js';
import { scripts } from '../../src/redis/scripts.generated.js';
import type { Clock } from '../../src/runtime/clock.js';
import { SortedSet } from '../../src/testing/keyspace.js';
import { evaluate, type Reply } from '../../src/testing/lua-runtime.js';
import { memoryScripts } from '../../src/testing/scripts.memory.generated.js';
import { MemoryServer, type Peer } from '../../src/testing/server.js';
import type { ServerClock } from '../chaos/stage/server.js';
import type { RedisServer } from './redis-server.js';
import {
  ALL_KEYS,
  CLIENTS,
  grantChannels,
  UNLOCK_CHANNELS,
  WISH_CHANNELS,
  type Past,
  type ScriptCall,
  type Step,
} from './script-calls.js';

/** When a run begins. */
const FIRST_MS = Date.UTC(2030, 0);

/** For each key there is: name, type and time to live; its content. At the end, how many they are: whoever is looked at goes if it is over. */
const STATE = `
local states = {}
for _, key in ipairs({ '${ALL_KEYS.join("', '")}' }) do
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'none' then
    local content = kind == 'string' and { redis.call('GET', key) } or kind == 'hash' and redis.call('HGETALL', key)
      or redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
    local head = string.format('%s %s %.0f', key, kind, redis.call('PTTL', key))
    states[#states + 1] = head .. '\\n' .. table.concat(content, '\\n')
  end
end
states[#states + 1] = redis.call('DBSIZE')
return table.concat(states, '\\f')`;

export class BothServers {
  readonly #redis: Redis;
  readonly #subscriber: Redis;
  readonly #clock: ServerClock;
  #isOld = false;
  #stateHash = '';
  #nowMs = FIRST_MS;
  #memory = new MemoryServer({ wallMs: () => this.#nowMs } as Clock);
  #pipeline: ChainableCommander;
  /** What is expected of the replies to what is in the pipeline. */
  #checks: ((reply: unknown) => void)[] = [];
  readonly #listening = new Set<string>();
  readonly #heard = { real: [] as string[], inMemory: [] as string[] };
  readonly #calls: ScriptCall[] = [];
  readonly #tickets = new Map<string, string>();
  #nonce = 0;
  /** Of all runs. */
  callCount = 0;

  readonly #peer = this.#newPeer();
  /** A connection that has subscribed runs no scripts. */
  readonly #hearer = this.#newPeer();

  constructor(server: RedisServer, clock: ServerClock) {
    this.#clock = clock;
    this.#redis = new Redis(server.url);
    this.#subscriber = new Redis(server.url);
    const hear = (channel: string, message: string): void =>
      void this.#heard.real.push(`${channel}: ${message}`);
    this.#subscriber.on('message', hear).on('smessage', hear);
    this.#pipeline = this.#redis.pipeline();
  }

  async open(): Promise<void> {
    this.#isOld = /^redis_version:6/m.test(await this.#redis.info('server'));
    // In the millisecond of its end a key is there for who asks, but Redis 8 may have removed it by then.
    await this.#redis.call('DEBUG', 'SET-ACTIVE-EXPIRE', '0');
    for (const { source } of Object.values(scripts)) await this.#redis.script('LOAD', source);
    this.#stateHash = String(await this.#redis.script('LOAD', STATE));
    await this.#listen([...UNLOCK_CHANNELS, ...WISH_CHANNELS], true);
  }

  close(): void {
    this.#redis.disconnect();
    this.#subscriber.disconnect();
  }

  get past(): Past {
    return {
      nowMs: Math.floor(this.#nowMs),
      hasSharded: !this.#isOld,
      tickets: this.#tickets,
      calls: this.#calls,
      ownersOf: ({ lock, line }) => this.#ownersOf(lock, line),
      ends: () => this.#ends(),
      nextNonce: () => ++this.#nonce,
    };
  }

  /** Both are empty, and some listen. */
  async begin(): Promise<void> {
    await this.#redis.flushall();
    this.#pipeline = this.#redis.pipeline();
    this.#checks = [];
    this.#memory = new MemoryServer({ wallMs: () => this.#nowMs } as Clock);
    for (const peer of [this.#peer, this.#hearer]) this.#memory.accept(peer);
    this.#calls.length = 0;
    this.#tickets.clear();
    this.#nonce = 0;
    this.#nowMs = FIRST_MS;
    await this.#pass(0);
    for (const client of CLIENTS)
      if (this.#listening.has(client) !== ['a', 'b'].includes(client)) await this.#toggle(client);
    this.#heard.real = [];
    this.#heard.inMemory = [];
  }

  async play(step: Step): Promise<void> {
    switch (step.kind) {
      case 'call':
        this.#call(step);
        break;
      case 'command': {
        const [command = '', ...args] = step.words;
        this.#send(step.words, expecting(step, this.#inMemory(command, args)));
        break;
      }
      case 'pass':
        await this.#compare();
        await this.#pass(step.ms);
        break;
      case 'listen':
        await this.#compare();
        await this.#toggle(step.client);
    }
  }

  /** Compares what was not compared so far, and what was published. */
  async end(): Promise<void> {
    await this.#compare();
    await this.#subscriber.ping();
    expect(this.#heard.real).toEqual(this.#heard.inMemory);
  }

  #call(call: ScriptCall): void {
    const { script, keys, args, denied } = call;
    const { sha1, source } = scripts[script];
    // Before Redis 7 there is no GT, either.
    const isRefused = (words: readonly string[]): boolean =>
      words[0] === denied || (this.#isOld && words.includes('GT'));
    const reply =
      denied === undefined && !this.#isOld
        ? this.#inMemory('EVAL', [source, String(keys.length), ...keys, ...args])
        : evaluate(memoryScripts[script], keys, args, (words) =>
            isRefused(words) ? { err: DENIED } : this.#inMemory(words[0]!, words.slice(1)),
          );
    const sent = ['EVALSHA', sha1, String(keys.length), ...keys, ...args];
    if (denied !== undefined) this.#send(['ACL', 'SETUSER', 'default', `-${denied}`]);
    const check = expecting(call, reply);
    this.#send(sent, (real) => {
      check(real);
      const isDocumented = real instanceof Error || isReplyOf(scripts[script], keys, args, real);
      if (!isDocumented) expect({ call, reply: real }).toBe('a reply of the script');
    });
    if (denied !== undefined) this.#send(['ACL', 'SETUSER', 'default', '+@all']);
    this.callCount++;
    this.#calls.push(call);
    if (/join/i.test(script) && Array.isArray(reply) && typeof reply[2] === 'string')
      this.#tickets.set(args[0]!, reply[2]);
  }

  #send(
    [command = '', ...args]: readonly string[],
    check: (reply: unknown) => void = () => undefined,
  ): void {
    this.#pipeline.call(command, ...args);
    this.#checks.push(check);
  }

  #newPeer(): Peer {
    return {
      classic: new Set(),
      sharded: new Set(),
      lastWriteMs: 0,
      backlog: undefined,
      message: (channel, payload) => void this.#heard.inMemory.push(`${channel}: ${payload}`),
      hungUp: () => undefined,
    };
  }

  #inMemory(command: string, args: readonly string[]): Reply {
    let answer: Reply = null;
    this.#memory.take(this.#peer, command, args, (reply) => (answer = reply));
    return answer;
  }

  /** What was played since, and what has become of the keys. */
  async #compare(): Promise<void> {
    const inMemory = this.#stateInMemory();
    this.#send(['EVALSHA', this.#stateHash, '0'], (state) => {
      if (state !== inMemory) expect(read(state)).toEqual(read(inMemory));
    });
    const replies = await this.#pipeline.exec();
    const checks = this.#checks;
    this.#pipeline = this.#redis.pipeline();
    this.#checks = [];
    for (const [i, [error, reply]] of replies!.entries()) checks[i]!(error ?? reply);
  }

  #stateInMemory(): string {
    const { keys } = this.#memory;
    const states = ALL_KEYS.flatMap((key) => {
      const entry = keys.entry(key);
      if (!entry) return [];
      const { value, untilMs } = entry;
      const ttlMs = untilMs === Infinity ? -1 : untilMs - keys.nowMs;
      if (typeof value === 'string') return [`${key} string ${ttlMs}\n${value}`];
      if (value instanceof Map) return [`${key} hash ${ttlMs}\n${[...value].flat().join('\n')}`];
      const scores = value.members.flatMap((member) => [member, value.score(member)]);
      return [`${key} zset ${ttlMs}\n${scores.join('\n')}`];
    });
    return [...states, keys.names.length].join('\f');
  }

  #ownersOf(lock: string, line: string): string[] {
    const { keys } = this.#memory;
    const [holders, waiting] = [keys.entry(lock)?.value, keys.entry(line)?.value];
    const owners = holders instanceof Map ? [...holders.keys()].slice(0, 9) : [];
    if (waiting instanceof SortedSet) owners.push(...waiting.members.slice(0, 9));
    return owners.filter((owner) => owner.includes(':'));
  }

  /** Of keys and leases, and those that places name. */
  #ends(): number[] {
    const { keys } = this.#memory;
    return ALL_KEYS.flatMap((key) => {
      const { untilMs = 0, value } = keys.entry(key) ?? {};
      if (value instanceof Map) {
        const named =
          [...value.values()]
            .slice(0, 9)
            .join(' ')
            .match(/\b\d{13}\b/g) ?? [];
        return [untilMs, ...named.map(Number)];
      }
      const leases = value instanceof SortedSet ? value.members.slice(0, 9) : [];
      return [untilMs, ...leases.map((each) => Number(keys.sortedSet(key)?.score(each)))];
    });
  }

  async #pass(ms: number): Promise<void> {
    this.#nowMs += ms;
    await this.#clock.stand(Math.floor(this.#nowMs * 1_000));
  }

  async #toggle(client: string): Promise<void> {
    const isToListen = !this.#listening.delete(client);
    if (isToListen) this.#listening.add(client);
    await this.#listen(grantChannels(client), isToListen);
  }

  async #listen(channels: readonly string[], isToListen: boolean): Promise<void> {
    const { classic, sharded } = this.#hearer;
    const command = isToListen ? 'subscribe' : 'unsubscribe';
    for (const channel of channels) {
      for (const set of [classic, sharded])
        if (isToListen) set.add(channel);
        else set.delete(channel);
      await this.#subscriber[command](channel);
      if (!this.#isOld) await this.#subscriber[`s${command}`](channel);
    }
  }
}

const DENIED = 'ERR ACL failure in script';

function expecting(step: Step, reply: Reply): (real: unknown) => void {
  return (real) => {
    const found = { step, reply: plain(real) };
    const expected = { step, reply: plain(reply) };
    // What is the same as a text need not be looked at by expect(), which takes its time.
    if (JSON.stringify(found) !== JSON.stringify(expected)) expect(found).toEqual(expected);
  };
}

/** In the words of the server in memory. */
function plain(reply: unknown): unknown {
  if (Array.isArray(reply)) return reply.map(plain);
  if (typeof reply === 'string') return inOneWay(reply);
  if (reply instanceof Error) return { err: inOneWay(reply.message) };
  if (reply === null || typeof reply !== 'object') return reply;
  return 'ok' in reply ? reply.ok : { err: inOneWay((reply as { err: string }).err) };
}

/** Each version words errors in its own way. */
function inOneWay(words: string): string {
  if (/attempt to |bad argument/.test(words)) return 'an error of Lua';
  if (/ACL failure|can't run this command/.test(words)) return DENIED;
  if (/invalid expire time in '?set'?/.test(words)) return 'an invalid expire time';
  return words
    .replace(/^(ERR Error running script .*)?@user_script: ?\d+: -?/s, '')
    .replace(/ script: ([0-9a-f]{40}, )?on @user_script:\d+\.$/, '');
}

/** The content of each key; large hashes have no order. */
function read(state: unknown): Record<string, readonly string[]> {
  const states = String(state)
    .split('\f')
    .map((text) => {
      const [head = '', ...content] = text.split('\n');
      if (!head.includes(' hash ')) return [head, content] as const;
      const pairs = content.flatMap((field, i) =>
        i % 2 === 0 ? [`${field} = ${content[i + 1]!}`] : [],
      );
      return [head, pairs.sort()] as const;
    });
  return Object.fromEntries(states);
}
