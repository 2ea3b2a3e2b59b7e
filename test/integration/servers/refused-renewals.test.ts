// A renewal of many leases that the server refuses because of one of them: the others are still renewed.
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { Holdfast, type Hold } from '../../../src/index.js';
import { eventsOf, rejectionOf, type EventOf } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { isKeptInLine, KeptLeases, standsInLine } from '../../support/full-memory.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { nameToken, uniqueName } from '../../support/unique-name.js';

const LEASE_MS = 1_500;
const PERMITTED_COUNT = 5;

type Held = Pick<Hold, 'signal' | 'release'>;

let server: RedisServer;
let admin: Redis;
let client: Holdfast;
let leases: KeptLeases;
let errors: EventOf<'error'>[];

beforeAll(async () => {
  server = await startRedis();
  admin = new Redis(server.url);
  await admin.call('ACL', 'SETUSER', 'app', 'reset', 'on', '>secret', '+@all', '&*');
});

afterAll(async () => {
  admin.disconnect();
  await server[Symbol.asyncDispose]();
});

beforeEach(() => {
  const { host, port } = server;
  const redis = { host, port, username: 'app', password: 'secret' };
  client = new Holdfast({
    redis,
    lockWatchdogTimeout: LEASE_MS,
    commandTimeout: 5_000,
    wait: Infinity,
  });
  leases = new KeptLeases(client);
  errors = eventsOf(client, 'error');
});

afterEach(async () => {
  await client.close();
});

/** Denies the locks themselves, and the keys beside them with these patterns: from now on, even on existing connections. */
async function permit(...patterns: string[]): Promise<void> {
  const keys = [`${nameToken}:*`, ...patterns].map((pattern) => `~${pattern}`);
  await admin.call('ACL', 'SETUSER', 'app', 'resetkeys', ...keys);
}

function permittedNames(): string[] {
  return Array.from({ length: PERMITTED_COUNT }, () => uniqueName('permitted'));
}

it.each([
  {
    title: 'lock',
    key: 'holdfast_forced',
    patterns: [`holdfast_*:{${nameToken}:permitted:*`],
    acquire: (name: string): Promise<Held> => client.getLock(name).acquire(),
  },
  {
    title: 'holder of a permit',
    key: 'holdfast_forced_owners',
    patterns: [
      ...['leases', 'line', 'places', 'permits'].map((what) => `holdfast_${what}:*`),
      `holdfast_forced_owners:{${nameToken}:permitted:*`,
    ],
    acquire: (name: string): Promise<Held> => client.getSemaphore(name, { permits: 2 }).acquire(),
  },
])('one $title with a denied key is reported, and the others are kept', async (kind) => {
  await permit(...kind.patterns);
  const names = permittedNames();
  const denied = uniqueName('denied');
  const holds = await Promise.all(names.map(kind.acquire));
  const refused = await kind.acquire(denied);
  await leases.areRenewed(names);
  await eventually(() => {
    expect(leases.lost).toMatchObject([{ lockName: denied, lossReason: 'unreachable' }]);
  });
  expect(refused.signal.aborted).toBe(true);
  expect(errors.map(({ error }) => error.message)).toEqual([
    expect.stringContaining(`"${kind.key}:{${denied}}"`),
  ]);
  await Promise.all(holds.map((hold) => hold.release()));
  expect(leases.lost).toHaveLength(1);
});

it('one place in line with a key that was denied meanwhile does not affect the others in line', async () => {
  await permit('holdfast_*');
  await using holder = new Holdfast({ redis: server.url, lockWatchdogTimeout: 60_000 });
  const names = permittedNames();
  const denied = uniqueName('denied');
  const held = await Promise.all(
    [...names, denied].map((name) => holder.getFairLock(name).acquire()),
  );
  const waiting = names.map((name) => client.getFairLock(name).acquire());
  const giveUp = new AbortController();
  const refused = rejectionOf(client.getFairLock(denied).acquire({ signal: giveUp.signal }));
  await Promise.all([...names, denied].map((name) => standsInLine(admin, name)));
  await permit(`holdfast_*:{${nameToken}:permitted:*`);
  // They are renewed more often while one of them is sent again.
  await Promise.all(names.map((name) => isKeptInLine(admin, name, 14)));
  await eventually(async () => {
    expect(await admin.exists(`holdfast_places:{${denied}}`)).toBe(0);
  });
  giveUp.abort();
  expect(await refused).toMatchObject({ lockName: denied });
  await Promise.all(held.map((hold) => hold.release()));
  for (const hold of await Promise.all(waiting)) await hold.release();
});
