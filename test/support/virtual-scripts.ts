// The scripts of a weighted lock in a time of their own: what they ask of the server's clock is read from a key, and so is who listens.
import { type Redis } from 'ioredis';
import { scripts, type Script } from '../../src/redis/scripts.generated.js';

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
