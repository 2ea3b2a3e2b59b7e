// Clusters and Sentinels that refuse the client are reported at once, as a single server is, and once; the client works when they accept
// it.
import { Cluster, Redis, type RedisOptions } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { UnavailableError, type Holdfast } from '../../../src/index.js';
import { eventsOf, newClient, rejectionOf } from '../../support/clients.js';
import { freePort, topologiesUnavailable, type RedisServer } from '../../support/redis-server.js';
import { startCluster, startSentinel, type SentinelSetup } from '../../support/redis-topologies.js';
import { uniqueName } from '../../support/unique-name.js';

/** The limit of a single attempt; an error that comes earlier did not wait for it. */
const COMMAND_TIMEOUT_MS = 20_000;

/** Long enough for an attempt or two to fail. */
const A_WHILE_MS = 300;

const templates: Cluster[] = [];
const heard = new WeakMap<Holdfast, string[]>();

function listenedTo(client: Holdfast): Holdfast {
  const messages: string[] = [];
  heard.set(client, messages);
  client.on('error', ({ error }) => messages.push(error.message));
  return client;
}

/** The messages of its error events so far; the array grows. */
function errorsOf(client: Holdfast): string[] {
  return heard.get(client)!;
}

afterEach(() => {
  for (const template of templates.splice(0)) template.disconnect();
});

describe.skipIf(topologiesUnavailable)('a cluster', () => {
  function clientOf(nodes: { host: string; port: number }[], password?: string): Holdfast {
    const redisOptions = password === undefined ? {} : { password };
    const redis = new Cluster(nodes, { redisOptions, lazyConnect: true });
    templates.push(redis);
    return listenedTo(newClient({ redis, commandTimeout: COMMAND_TIMEOUT_MS }));
  }

  it('reports a wrong password, a missing one, and a user who may not ask for its slots', async () => {
    await using servers = await startCluster();
    for (const node of servers.masters) {
      await admin(node, ['ACL', 'SETUSER', 'default', '>right', '-cluster']);
    }
    await using wrong = clientOf(servers.nodes, 'wrong');
    await using none = clientOf(servers.nodes);
    await using limited = clientOf(servers.nodes, 'right');
    await refuses(wrong, /WRONGPASS/);
    await refuses(none, /NOAUTH/);
    await refuses(limited, /NOPERM.*cluster/);
    await sleep(A_WHILE_MS);
    for (const client of [wrong, none, limited]) expect(errorsOf(client)).toHaveLength(1);
    expect([wrong.status, none.status, limited.status]).toEqual(['refused', 'refused', 'refused']);

    const withPassword = { password: 'right' };
    for (const node of servers.masters) {
      await admin(node, ['ACL', 'SETUSER', 'default', '+cluster', '>wrong'], withPassword);
    }
    for (const client of [wrong, limited]) await letsIn(client);
  }, 60_000);

  it.each([
    { what: 'whose only node is down', isNamed: false, downCount: 1 },
    { what: 'of which two nodes are down', isNamed: false, downCount: 2 },
    { what: 'of which a node has a name that is not known', isNamed: true, downCount: 0 },
    { what: 'of which one has such a name, and one is down', isNamed: true, downCount: 1 },
  ])('$what reports it once, and fails single attempts at once', async ({ isNamed, downCount }) => {
    const ports = await Promise.all(Array.from({ length: downCount }, () => freePort()));
    const down = ports.map((port) => ({ host: '127.0.0.1', port }));
    await using client = clientOf([
      ...(isNamed ? [{ host: 'no.invalid', port: 6379 }] : []),
      ...down,
    ]);
    const tried = ports.toSorted().map((port) => `127.0.0.1:${port}`);
    const words = isNamed
      ? /cannot be reached: getaddrinfo (ENOTFOUND|EAI_AGAIN) no\.invalid/
      : `cannot be reached: no node of the cluster can be reached (tried ${tried.join(', ')})`;
    for (let times = 0; times < 3; times++) {
      const message = String(await promptly(client.getLock(uniqueName()).tryLock()));
      if (typeof words === 'string') expect(message).toContain(words);
      else expect(message).toMatch(words);
    }
    await sleep(A_WHILE_MS);
    expect(errorsOf(client)).toHaveLength(1);
    expect(client.status).toBe('connecting');
  });

  it('answers ping() when all its masters do', async () => {
    await using servers = await startCluster();
    await using client = clientOf(servers.nodes);
    expect(await client.ping()).toBeGreaterThan(0);
    await servers.masters[1]!.pause();
    const error = await rejectionOf(client.ping({ timeout: 300 }));
    expect(String(error)).toMatch(/within 300 ms/); // the query of the slots, or the connection to the node: their limits are the same
    await servers.masters[1]!.resume();
  }, 60_000);

  it('that is down causes one event for all renewals that fail', async () => {
    await using servers = await startCluster();
    const redis = new Cluster(servers.nodes, { lazyConnect: true });
    templates.push(redis);
    await using client = listenedTo(newClient({ redis, commandTimeout: 2_000 }));
    const errors = errorsOf(client);
    const lost = eventsOf(client, 'lost');
    const holds = await Promise.all(
      Array.from({ length: 60 }, () => client.getLock(uniqueName()).acquire()),
    );
    await servers.masters[0]!.kill();
    await servers.masters[2]!.kill();
    await expect.poll(() => lost.length, { timeout: 10_000 }).toBe(holds.length);
    // A node's silence, CLUSTERDOWN, and that nothing is reachable: a few errors, each reported once.
    expect(errors.length).toBeGreaterThan(0);
    expect(errors.length).toBeLessThanOrEqual(4);
  }, 60_000);
});

describe.skipIf(topologiesUnavailable)('Sentinel', () => {
  function clientOf({ name, sentinels }: SentinelSetup, options: RedisOptions = {}): Holdfast {
    const redis = { name, sentinels, ...options };
    return listenedTo(newClient({ redis, commandTimeout: COMMAND_TIMEOUT_MS }));
  }

  it('reports a wrong password, a missing one, and a group that it does not know', async () => {
    await using setup = await startSentinel();
    await using stranger = clientOf(setup, { name: 'unknown' });
    await refuses(stranger, /knows no group of servers with the name "unknown"/);
    for (const { port } of setup.sentinels) {
      const { host, port: masterPort } = setup.master;
      const monitor = ['SENTINEL', 'MONITOR', 'unknown', host, String(masterPort), '2'];
      await adminAt(port, monitor);
    }
    await letsIn(stranger);

    for (const { port } of setup.sentinels)
      await adminAt(port, ['ACL', 'SETUSER', 'default', 'resetpass', '>right']);
    await using wrong = clientOf(setup, { sentinelPassword: 'wrong' });
    await using none = clientOf(setup);
    await refuses(wrong, /Sentinel: WRONGPASS/);
    await refuses(none, /Sentinel: NOAUTH/);
    for (const { port } of setup.sentinels)
      await adminAt(port, ['ACL', 'SETUSER', 'default', '>wrong'], { password: 'right' });
    await letsIn(wrong);
  }, 60_000);

  it('with all servers down reports it once, and fails a single attempt as soon as that is known', async () => {
    const ports = [await freePort(), await freePort()];
    const sentinels = ports.map((port) => ({ host: '127.0.0.1', port }));
    const redis = { name: 'group', sentinels };
    await using client = listenedTo(newClient({ redis, commandTimeout: COMMAND_TIMEOUT_MS }));
    for (let times = 0; times < 5; times++) {
      const error = await promptly(client.getLock(uniqueName()).tryLock());
      const tried = ports.map((port) => `127.0.0.1:${port}`).join(', ');
      expect(String(error)).toContain(`no Sentinel can be reached (tried ${tried})`);
    }
    expect(errorsOf(client)).toHaveLength(1);
    expect(client.status).toBe('connecting');
  });
});

/** A call that waits for ever or makes one attempt fails at once, and error events report it once. */
async function refuses(client: Holdfast, reason: RegExp): Promise<void> {
  const errors = errorsOf(client);
  const lock = client.getLock(uniqueName());
  for (const call of [() => lock.lock(), () => lock.tryLock(), () => client.ping()]) {
    const error = await promptly(call());
    expect(String(error)).toMatch(reason);
  }
  expect(client.status).toBe('refused');
  await new Promise((resolve) => setTimeout(resolve, 700)); // a few more attempts
  expect(errors.filter((one) => reason.test(one))).toHaveLength(1);
  expect(errors.length).toBeLessThanOrEqual(2);
}

async function letsIn(client: Holdfast): Promise<void> {
  await expect.poll(() => client.status, { timeout: 10_000 }).toBe('ready');
  await client.getLock(uniqueName()).withLock(() => 1);
}

async function promptly(call: Promise<unknown>): Promise<unknown> {
  const startedAtMs = performance.now();
  const error = await rejectionOf(call);
  expect(performance.now() - startedAtMs).toBeLessThan(COMMAND_TIMEOUT_MS / 2);
  expect(error).toBeInstanceOf(UnavailableError);
  return error;
}

async function admin(
  { port }: RedisServer,
  command: string[],
  options: RedisOptions = {},
): Promise<void> {
  await adminAt(port, command, options);
}

async function adminAt(port: number, command: string[], options: RedisOptions = {}): Promise<void> {
  const redis = new Redis({ ...options, port, enableReadyCheck: false } as { port: number });
  const [name, ...args] = command;
  try {
    await redis.call(name!, args);
  } finally {
    redis.disconnect();
  }
}
