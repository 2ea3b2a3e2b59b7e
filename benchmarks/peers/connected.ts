// A plain ioredis client, connected, with the default options: what the libraries that bring none of their own are given.

import { Redis } from 'ioredis';

export async function connected(url: string): Promise<Redis> {
  const redis = new Redis(url);
  redis.on('error', () => undefined); // a server that falls silent is part of what is measured
  await redis.ping();
  return redis;
}
