// Where in a cluster somebody listens for a lock, by the kind of channel.
import type { Redis } from 'ioredis';

export type ChannelKind = 'sharded' | 'classic';

/** Redis 7 and newer have sharded channels. */
export async function hasShardedChannels(redis: Redis): Promise<boolean> {
  return await redis.pubsub('SHARDNUMSUB').then(
    () => true,
    () => false,
  );
}

/** On which of the masters, by index, somebody listens on channels of this kind whose name has `part` in it. */
export async function listenedOn(
  masters: readonly Redis[],
  kind: ChannelKind,
  part: string,
): Promise<number[]> {
  const channels = await Promise.all(
    masters.map(async (master) => {
      if (kind === 'sharded' && !(await hasShardedChannels(master))) return [];
      const names = kind === 'sharded' ? master.pubsub('SHARDCHANNELS') : master.pubsub('CHANNELS');
      return (await names) as string[];
    }),
  );
  return channels.flatMap((names, index) =>
    names.some((name) => name.includes(part)) ? [index] : [],
  );
}
