// Clusters whose nodes are reached at other addresses than they announce (NAT), announce names instead of addresses, or use TLS for another
// name.
import { Cluster, Redis, type NatMap } from 'ioredis';
import { createCluster } from 'redis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Holdfast } from '../../../src/index.js';
import { eventsOf, newClient, nextEvent, rejectionOf } from '../../support/clients.js';
import { hasShardedChannels, listenedOn, SlotMover } from '../../support/cluster.js';
import { eventually, inTime } from '../../support/time.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, type Cluster as Servers } from '../../support/redis-topologies.js';
import {
  certificatesUnavailable,
  makeCertificate,
  startTlsProxy,
  type Certificate,
  type TlsProxy,
} from '../../support/tls.js';
import { uniqueName } from '../../support/unique-name.js';

interface Place {
  readonly host: string;
  readonly port: number;
}

/** How a user gives the address of a cluster, whatever the library. */
interface Given {
  /** One of the nodes: it names the others. */
  readonly nodes: readonly Place[];
  readonly map?: Readonly<Record<string, Place>> | ((announced: string) => Place | undefined);
  readonly tls?: { readonly ca?: string[]; readonly servername: string };
}

/** So long that only a message wakes a waiter within `WAIT_MS`. */
const WATCHDOG_MS = 180_000;
const WAIT_MS = 30_000;

const NAME = 'node.example';

describe.skipIf(topologiesUnavailable)('a cluster', () => {
  let servers: Servers;
  let masters: Redis[];
  let mover: SlotMover;
  let isOld: boolean;

  beforeAll(async () => {
    servers = await startCluster();
    masters = servers.masters.map(({ url }) => new Redis(url));
    mover = await SlotMover.of(servers.masters);
    isOld = !(await hasShardedChannels(masters[0]!));
    if (isOld) return;
    await each((_, index) => ({
      'cluster-announce-bus-port': servers.nodes[index]!.port + 10_000,
    }));
  }, 60_000);

  beforeEach(({ skip }) => {
    skip(isOld, 'before Redis 7 what nodes announce cannot be changed while they run');
  });

  afterAll(async () => {
    await mover[Symbol.asyncDispose]();
    for (const master of masters) master.disconnect();
    await servers[Symbol.asyncDispose]();
  });

  /** Configures each of the masters. */
  async function each(settingsOf: (node: Place, index: number) => object): Promise<void> {
    for (const [index, master] of masters.entries())
      for (const [name, value] of Object.entries(settingsOf(servers.nodes[index]!, index)))
        await master.config('SET', name, String(value));
  }

  /** From now on all of them announce the nodes at these addresses. */
  async function announce(places: readonly Place[]): Promise<void> {
    if (isOld) return;
    await each((node, index) => {
      const { host, port } = places[index]!;
      const isName = host !== node.host;
      return {
        'cluster-announce-port': port,
        'cluster-announce-hostname': isName ? host : '',
        'cluster-preferred-endpoint-type': isName ? 'hostname' : 'ip',
      };
    });
    const expected = places.map(({ host, port }) => `${host}:${port}`).toSorted();
    for (const master of masters)
      await eventually(async () => {
        expect(await announcedBy(master)).toEqual(expected);
      }, 20_000);
  }

  async function announcedBy(master: Redis): Promise<string[]> {
    const ranges = (await master.cluster('SLOTS')) as unknown as [
      number,
      number,
      [string, number],
    ][];
    return [...new Set(ranges.map(([, , [host, port]]) => `${host}:${port}`))].toSorted();
  }

  async function nameAt(master: Redis): Promise<string> {
    for (;;) {
      const name = uniqueName();
      const home = await mover.home(await mover.slotOf(name));
      if (home.options.port === master.options.port) return name;
    }
  }

  const libraries: [string, (given: Given) => Cluster | object][] = [
    [
      'ioredis',
      ({ nodes, map, tls }) =>
        new Cluster([...nodes], {
          lazyConnect: true,
          natMap: map as NatMap,
          redisOptions: { ...(tls && { tls }) },
        }),
    ],
    [
      'node-redis',
      ({ nodes, map, tls }) =>
        createCluster({
          rootNodes: nodes.map(({ host, port }) => ({ socket: { host, port } })),
          ...(map && { nodeAddressMap: map }),
          ...(tls && { defaults: { socket: { tls: true, ...tls } } }),
        }),
    ],
  ];

  function aClient(make: (given: Given) => object, given: Given): Holdfast {
    return newClient({
      redis: make(given),
      lockWatchdogTimeout: WATCHDOG_MS,
      commandTimeout: 9_000,
    });
  }

  /** What clients do in a cluster, if `given` leads them to its nodes. */
  function itServes(make: (given: Given) => object, given: () => Given): void {
    it('has locks on all its masters, and wakes their waiters', async () => {
      await using holder = aClient(make, given());
      await using waiter = aClient(make, given());
      const errors = [eventsOf(holder, 'error'), eventsOf(waiter, 'error')];
      for (const [index, master] of masters.entries()) {
        const name = await nameAt(master);
        const hold = await holder.getLock(name).acquire({ wait: WAIT_MS });
        expect(await master.exists(name)).toBe(1);
        const waiting = nextEvent(waiter, 'waiting');
        const next = waiter.getLock(name).acquire({ wait: WAIT_MS });
        await waiting;
        await expect
          .poll(() => listenedOn(masters, 'sharded', name), { timeout: WAIT_MS })
          .toEqual([index]);
        await hold.release();
        // Without a message it polls after 29 s.
        await (await inTime(next, 10_000, 'no message woke it')).release();
      }
      expect(errors.flat()).toEqual([]);
    }, 90_000);

    it('redirects by ASK and MOVED to the node that has a slot', async () => {
      await using client = aClient(make, given());
      const errors = eventsOf(client, 'error');
      const name = uniqueName();
      const lock = client.getLock(name);
      await lock.withLock({ wait: WAIT_MS }, () => undefined);
      const slot = await mover.slotOf(name);
      const former = await mover.home(slot);
      await former.config('RESETSTAT');
      await mover.begin(slot);
      await lock.withLock({ wait: WAIT_MS }, () => undefined);
      expect(await repliesOf(former)).toMatch(/^errorstat_ASK:/m);
      await mover.moveBy(1, slot);
      await former.config('RESETSTAT');
      await lock.withLock({ wait: WAIT_MS }, () => undefined);
      expect(await repliesOf(former)).toMatch(/^errorstat_MOVED:/m);
      expect(errors).toEqual([]);
    }, 90_000);
  }

  function repliesOf(master: Redis): Promise<string> {
    return master.info('errorstats');
  }

  describe('whose nodes announce ports without a listener', () => {
    beforeAll(() => announce(servers.nodes.map(({ host }, index) => ({ host, port: index + 1 }))));

    const addressOf = (index: number): string => `127.0.0.1:${index + 1}`;

    describe.each(libraries)('with an object of %s that maps addresses', (_, make) => {
      itServes(make, () => ({
        nodes: servers.nodes.slice(0, 1),
        map: Object.fromEntries(servers.nodes.map((node, index) => [addressOf(index), node])),
      }));
    });

    it.each(libraries)('and that %s does not map reports where nobody listens', async (_, make) => {
      const redis = make({ nodes: servers.nodes.slice(0, 1) });
      await using client = newClient({ redis, commandTimeout: 2_000 });
      const told = nextEvent(client, 'error');
      const error = await rejectionOf(client.getLock(uniqueName()).tryLock());
      expect(error).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
      for (const { message } of [error as Error, (await told).error])
        expect(message).toMatch(/ECONNREFUSED 127\.0\.0\.1:[123]\b/);
    });
  });

  describe('whose nodes announce names that only this test resolves', () => {
    beforeAll(() =>
      announce(servers.nodes.map(({ port }, index) => ({ host: `node-${index}.invalid`, port }))),
    );

    describe.each(libraries)('with a function of %s that maps addresses', (_, make) => {
      itServes(make, () => ({
        nodes: servers.nodes.slice(0, 1),
        map: (announced) =>
          servers.nodes.find((node, index) => announced === `node-${index}.invalid:${node.port}`),
      }));
    });
  });

  describe('whose nodes announce names', () => {
    beforeAll(() => announce(servers.nodes.map(({ port }) => ({ host: 'localhost', port }))));

    describe.each(libraries)('with %s', (_, make) => {
      itServes(make, () => ({ nodes: servers.nodes.slice(0, 1) }));
    });
  });

  if (certificatesUnavailable !== undefined)
    console.log(`left out, a cluster with TLS: ${certificatesUnavailable}`);

  describe.skipIf(certificatesUnavailable)('whose nodes use TLS for a name', () => {
    let certificate: Certificate;
    let ofAnother: Certificate;
    const proxies: TlsProxy[] = [];

    beforeAll(async () => {
      certificate = makeCertificate(`DNS:${NAME}`);
      ofAnother = makeCertificate('DNS:other.example');
      for (const { port } of servers.nodes) proxies.push(await startTlsProxy(port, certificate));
      await announce(proxies);
    }, 60_000);

    afterEach(() => announce(proxies));

    afterAll(async () => {
      for (const proxy of proxies) await proxy[Symbol.asyncDispose]();
    });

    const given = (servername = NAME, ca = [certificate, ofAnother]): Given => ({
      nodes: proxies.slice(0, 1),
      tls: { servername, ca: ca.map((each) => each.certificate) },
    });

    describe.each(libraries)('with %s', (_, make) => {
      itServes(make, given);

      it('all receive that name as the server name', async () => {
        await using client = aClient(make, given());
        for (const master of masters)
          await client.getLock(await nameAt(master)).withLock({ wait: WAIT_MS }, () => undefined);
        for (const { serverNames } of proxies) {
          expect(serverNames.length).toBeGreaterThan(0);
          expect(new Set(serverNames)).toEqual(new Set([NAME]));
        }
      });

      it.each([
        ['for another name', () => given('third.example'), /Host: third\.example.* altnames/],
        ['that it does not trust', () => given(NAME, [ofAnother]), /self-signed certificate/],
      ])('a certificate %s is reported at once', async (_what, wrong, words) => {
        await using client = aClient(make, wrong());
        const told = nextEvent(client, 'error');
        const error = await rejectionOf(client.getLock(uniqueName()).tryLock());
        expect(error).toMatchObject({ code: 'REDIS_UNAVAILABLE' });
        expect(String(error)).toMatch(words);
        expect((await told).error.message).toMatch(words);
      });

      it('a certificate for another name at one node is reported for that node, and the others work', async () => {
        await using wrong = await startTlsProxy(servers.nodes[2]!.port, ofAnother);
        await announce([proxies[0]!, proxies[1]!, wrong]);
        await using client = aClient(make, given());
        const told = nextEvent(client, 'error');
        await client.getLock(await nameAt(masters[0]!)).withLock(() => undefined);
        const error = await rejectionOf(client.getLock(await nameAt(masters[2]!)).tryLock());
        expect(String(error)).toMatch(/Host: node\.example.* altnames: DNS:other\.example/);
        expect((await told).error.message).toContain('DNS:other.example');
        await client.getLock(await nameAt(masters[1]!)).withLock(() => undefined);
      });
    });
  });
});
