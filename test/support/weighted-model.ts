// A weighted lock as its scripts should have it, in plain words, and the scripts themselves in a time of their own.
import type { Redis } from 'ioredis';
import { scripts, type Script } from '../../src/redis/scripts.generated.js';

interface Holder {
  weight: number;
  isUnconfirmed: boolean;
  endsAtMs: number;
}

export interface ModelPlace {
  readonly weight: number;
  nonce: number;
  expiresAtMs: number;
  leaseMs: number;
  readonly isFixed: boolean;
  isListening: boolean;
  readonly listensAt: string;
}

interface JoinCall {
  readonly owner: string;
  readonly weight: number;
  readonly declared: number;
  readonly leaseMs: number;
  /** 0: it does not join the line. */
  readonly placeLeaseMs: number;
  readonly nonce: number;
  readonly ticket: number;
  readonly isFixed: boolean;
  readonly isListening: boolean;
  readonly listensAt: string;
}

interface HandOverCall {
  readonly owner: string;
  readonly target: number;
  readonly leaseMs: number;
  readonly isConfirmation: boolean;
}

type ModelKey = 'lock' | 'leases' | 'line' | 'places' | 'permits';

/** To be looked at now. */
const NOW = -2;

export class WeightedModel {
  nowMs: number;
  /** The channels where somebody listens. */
  readonly listening = new Set<string>();
  capacity: number | undefined;
  set: number | undefined;
  readonly holders = new Map<string, Holder>();
  readonly tickets = new Map<string, number>();
  readonly places = new Map<string, ModelPlace>();
  /** The leases were deleted, and the lock has not noticed. */
  #isTorn = false;

  constructor(nowMs: number) {
    this.nowMs = nowMs;
  }

  get used(): number {
    return [...this.holders.values()].reduce((sum, { weight }) => sum + weight, 0);
  }

  /** Owners, in the order of the line. */
  get line(): string[] {
    const byTicket = [...this.tickets].sort(
      ([a, one], [b, other]) => one - other || (a < b ? -1 : 1),
    );
    return byTicket.map(([owner]) => owner);
  }

  deleteKey(key: ModelKey): void {
    if (key === 'permits') this.set = undefined;
    if (key === 'line') this.tickets.clear();
    if (key === 'places') this.places.clear();
    if (key === 'leases' && this.holders.size > 0) this.#isTorn = true;
    if (key === 'lock') {
      this.capacity = undefined;
      this.#isTorn = false;
    }
    if (key === 'lock' || key === 'leases') this.holders.clear();
  }

  setCapacity(capacity: number): number {
    this.set = capacity;
    if (this.capacity !== undefined) this.capacity = capacity;
    return 1;
  }

  join(call: JoinCall): unknown {
    const { owner, weight, declared } = call;
    if (this.capacity !== undefined && this.capacity !== declared && this.set === undefined)
      return ['declared', this.capacity];
    const capacity = this.capacity ?? this.set ?? declared;
    if (weight > capacity) return ['exceeded', capacity];
    const own = this.holders.get(owner);
    if (own && own.endsAtMs > this.nowMs) {
      own.endsAtMs = Math.max(own.endsAtMs, this.nowMs + call.leaseMs);
      return own.isUnconfirmed ? 2 : 1;
    }
    const [first] = this.line;
    const firstTicket = this.tickets.get(first ?? '') ?? 0;
    const isFirst =
      first === undefined || first === owner || (call.ticket > 0 && call.ticket < firstTicket);
    const hasLapsed = [...this.holders.values()].some(({ endsAtMs }) => endsAtMs <= this.nowMs);
    if (isFirst && !hasLapsed && this.used + weight <= capacity) {
      this.#mend(capacity);
      this.#admit(owner, weight, false, this.nowMs + call.leaseMs);
      if (first !== undefined) this.#leave(owner);
      return 1;
    }
    const inTheWay = this.#byEnd[0]?.[0] ?? first ?? owner;
    const checkInMs = this.#checkInMs(capacity, isFirst ? undefined : first);
    if (call.placeLeaseMs === 0) {
      if (this.capacity === undefined) this.#mend(capacity); // those who are left in line can be let in again
      return [inTheWay, checkInMs, '0'];
    }
    const ticket = this.tickets.get(owner) ?? (call.ticket > 0 ? call.ticket : this.#nextTicket());
    this.tickets.set(owner, ticket);
    this.#mend(capacity);
    const place = this.places.get(owner);
    if (!place || place.nonce <= call.nonce) {
      const { nonce, placeLeaseMs, isFixed, isListening, listensAt } = call;
      const expiresAtMs = this.nowMs + placeLeaseMs;
      const times = { nonce, expiresAtMs, leaseMs: placeLeaseMs };
      this.places.set(owner, { weight, ...times, isFixed, isListening, listensAt });
    }
    return [inTheWay, checkInMs, String(ticket)];
  }

  handOver({ owner, target, leaseMs, isConfirmation }: HandOverCall): unknown {
    if (this.capacity === undefined) {
      if (owner !== '' && target === 0) this.#leave(owner);
      return [0, NOW, []];
    }
    // Of a lock without holders and without a line nothing is to be left.
    let hasChanged = this.#isTorn || (this.holders.size === 0 && this.tickets.size === 0);
    for (const [lapsed, { endsAtMs }] of [...this.holders]) {
      if (endsAtMs > this.nowMs) continue;
      this.holders.delete(lapsed);
      hasChanged = true;
    }
    const own = this.holders.get(owner);
    const wasInLine = this.tickets.size > 0;
    if (target === 0) {
      this.holders.delete(owner);
      if (owner !== '' && (wasInLine || !own)) {
        this.#leave(owner);
        hasChanged = true;
      }
    } else if (own) {
      this.#keep(own, target, leaseMs, isConfirmation);
    }
    hasChanged ||= own !== undefined;
    const given: string[] = [];
    let waiting: ModelPlace | undefined;
    for (const candidate of this.line) {
      const place = this.places.get(candidate);
      if (place && !this.#isDropped(place)) {
        if (this.used + place.weight > this.capacity) {
          waiting = place;
          break;
        }
        this.#admit(candidate, place.weight, place.isFixed, place.expiresAtMs);
        given.push(`${String(place.nonce)} ${candidate}`);
      }
      this.#leave(candidate);
      hasChanged = true;
    }
    if (hasChanged) this.#isTorn = false;
    const isEmpty = this.holders.size === 0 && !waiting;
    if (isEmpty && hasChanged) this.capacity = undefined;
    const ends = this.#byEnd.map(([, { endsAtMs }]) => endsAtMs);
    const checkInMs = waiting
      ? Math.max(Math.min(...ends, waiting.expiresAtMs) - this.nowMs, 0)
      : given.length > 0
        ? -1
        : NOW;
    return [own ? 1 : 0, checkInMs, given];
  }

  renew(owners: readonly string[], leaseMs: number): unknown {
    return owners.map((owner) => {
      const holder = this.holders.get(owner);
      if (!holder || holder.endsAtMs <= this.nowMs) return 'deleted';
      if (leaseMs > 0) {
        holder.endsAtMs = Math.max(holder.endsAtMs, this.nowMs + leaseMs);
        holder.isUnconfirmed = false;
      }
      return 'kept';
    });
  }

  renewPlaces(
    owners: readonly string[],
    placeLeaseMs: number,
    nonce: number,
    isListening: boolean,
  ): unknown {
    const expiresAtMs = this.nowMs + placeLeaseMs;
    const answers = owners.map((owner) => {
      const holder = this.holders.get(owner);
      if (this.capacity === undefined) return 'gone';
      if (holder && holder.endsAtMs > this.nowMs) {
        holder.endsAtMs = Math.max(holder.endsAtMs, expiresAtMs);
        return 'yours';
      }
      const place = this.places.get(owner);
      if (!place || place.expiresAtMs <= this.nowMs || !this.tickets.has(owner)) return 'gone';
      if (place.nonce <= nonce)
        Object.assign(place, { nonce, expiresAtMs, leaseMs: placeLeaseMs, isListening });
      return 'in line';
    });
    const { capacity } = this;
    const look = capacity === undefined ? NOW : this.#checkInMs(capacity, this.line[0]);
    return answers.map((answer) => (answer === 'in line' ? look : answer));
  }

  #isDropped({ expiresAtMs, weight, isListening, listensAt }: ModelPlace): boolean {
    const isDeaf = isListening && !this.listening.has(listensAt);
    return expiresAtMs <= this.nowMs || weight > (this.capacity ?? 0) || isDeaf;
  }

  #keep(own: Holder, target: number, leaseMs: number, isConfirmation: boolean): void {
    if (target > 0) own.weight = Math.min(own.weight, target);
    const endsAtMs = this.nowMs + leaseMs;
    const mayShorten = own.isUnconfirmed && isConfirmation;
    if (leaseMs > 0) own.endsAtMs = mayShorten ? endsAtMs : Math.max(own.endsAtMs, endsAtMs);
    own.isUnconfirmed = false;
  }

  /** The rule of all rules: no more than there are. */
  #admit(owner: string, weight: number, isUnconfirmed: boolean, endsAtMs: number): void {
    this.holders.delete(owner);
    if (this.used + weight > (this.capacity ?? 0)) throw new Error('the model gives too many');
    this.holders.set(owner, { weight, isUnconfirmed, endsAtMs });
  }

  #leave(owner: string): void {
    this.tickets.delete(owner);
    this.places.delete(owner);
  }

  #mend(capacity: number): void {
    this.capacity = capacity;
    this.#isTorn = false;
  }

  #nextTicket(): number {
    return Math.max(this.nowMs * 1_000, ...[...this.tickets.values()].map((ticket) => ticket + 1));
  }

  get #byEnd(): [string, Holder][] {
    return [...this.holders].sort(
      ([a, one], [b, other]) => one.endsAtMs - other.endsAtMs || (a < b ? -1 : 1),
    );
  }

  /** When somebody in line has to look. `first`: the place that is first, if it is not the asker's. */
  #checkInMs(capacity: number, first: string | undefined): number {
    let endMs = this.#byEnd[0]?.[1].endsAtMs ?? Infinity;
    if (first !== undefined) {
      const place = this.places.get(first);
      if (!place || this.used + place.weight <= capacity || place.weight > capacity) return NOW;
      endMs = Math.min(endMs, place.expiresAtMs);
    }
    return endMs > this.nowMs && endMs < Infinity ? endMs - this.nowMs : NOW;
  }
}

// The scripts of a weighted lock in a time of their own: what they ask of the server's clock is read from a key, and so is who listens.

export const NOW_KEY = 'virtual:now';
export const LISTENING_KEY = 'virtual:listening';

const PRELUDE = `
local virtualNowMs = tonumber(redis.call('GET', '${NOW_KEY}'))
local function virtualTime()
  return { string.format('%d', math.floor(virtualNowMs / 1000)), string.format('%d', virtualNowMs % 1000 * 1000) }
end
local function virtualTtl(key)
  local endsAtMs = redis.call('PEXPIRETIME', key)
  return endsAtMs < 0 and endsAtMs or math.max(endsAtMs - virtualNowMs, 0) -- as the server itself: -1 is no end
end
local function virtualCount(channel)
  return { channel, redis.call('SISMEMBER', '${LISTENING_KEY}', channel) }
end
`;

/** Each command that is replaced, by what, and in how many scripts it is to be found. */
const REPLACED = [
  { from: /redis\.call\('TIME'\)/g, to: 'virtualTime()' },
  { from: /redis\.call\('PTTL', ([^()]+?)\)/g, to: 'virtualTtl($1)' },
  { from: /redis\.pcall\('PUBSUB', ask, ([^()]+?)\)/g, to: 'virtualCount($1)' },
] as const;

function virtual({ name, source }: Script): string {
  let replaced = source;
  for (const { from, to } of REPLACED) replaced = replaced.replace(from, to);
  const left = /'(TIME|P?TTL|PUBSUB)'/.exec(replaced);
  if (left) throw new Error(`${name}.lua still asks for ${left[0]}: the replacement does not fit`);
  return PRELUDE + replaced;
}

/** Loads those of the weighted lock; returns their hashes. */
export async function loadVirtual(redis: Redis): Promise<Record<WeightedScript, string>> {
  const hashes = await Promise.all(
    WEIGHTED.map(async (name) => [
      name,
      (await redis.script('LOAD', virtual(scripts[name]))) as string,
    ]),
  );
  return Object.fromEntries(hashes) as Record<WeightedScript, string>;
}

const WEIGHTED = [
  'weightedJoin',
  'weightedHandOver',
  'weightedRenew',
  'weightedRenewPlaces',
  'weightedSetCapacity',
] as const;

export type WeightedScript = (typeof WEIGHTED)[number];
