// Which test files start servers of their own; where only HOLDFAST_REDIS_URL is given, they are left out.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const STARTS_SERVER =
  /\b(startRedis|startPair|startSentinel|startReplicated|startCluster|startMasters|startRedisProcess)\(/;

/** The integration test files that cannot run with one given server, as paths from the repository's root. */
export function filesThatStartServers(): string[] {
  const folder = 'test/integration';
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.test.ts'))
    .map((file) => join(folder, file))
    .filter((file) => STARTS_SERVER.test(readFileSync(file, 'utf8')));
}
