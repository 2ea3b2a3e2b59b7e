// npx holdfast with the URL of one node of a cluster: it finds the others, and names the one that does not answer.
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { checksIn, Command, type Ended, expectOneLine } from '../../support/cli-command.js';
import { nameAt, SlotMover } from '../../support/cluster.js';
import { newClient } from '../../support/clients.js';
import { topologiesUnavailable } from '../../support/redis-server.js';
import { startCluster, type Cluster as Servers } from '../../support/redis-topologies.js';
import { documentedPermissions } from '../../support/users.js';

describe.skipIf(topologiesUnavailable)('with the URL of one node of a cluster', () => {
  let servers: Servers;
  let mover: SlotMover;
  let nodes: Redis[];

  beforeAll(async () => {
    servers = await startCluster();
    mover = await SlotMover.of(servers.masters);
    nodes = servers.masters.map(({ url }) => new Redis(url));
    // A master that is frozen is not taken for failed: the others go on, and name it.
    for (const node of nodes) await node.config('SET', 'cluster-node-timeout', '60000');
  }, 60_000);

  afterAll(async () => {
    for (const node of nodes) node.disconnect();
    await mover[Symbol.asyncDispose]();
    await servers[Symbol.asyncDispose]();
  });

  const start = (...args: string[]): Command =>
    new Command(args, { HOLDFAST_REDIS_URL: servers.masters[0]!.url });
  const holdfast = (...args: string[]): Promise<Ended> => start(...args).end();

  it('doctor finds nothing wrong with it, every time', async () => {
    for (let round = 0; round < 6; round++) {
      const { out, err, code } = await holdfast('doctor', '--json');
      expect({ code, err }).toEqual({ code: 0, err: '' });
      const found = checksIn(out);
      expect(found['cluster']).toEqual({ state: 'ok', found: '3 masters, all answer' });
      for (const check of ['permissions', 'latency', 'clock', 'wake-up', 'tracking'])
        expect(found[check], check).toMatchObject({ state: 'ok' });
      expect(found['tracking']!.found).toMatch(/ told after \d+\.\d ms, by the slowest of 3 /);
    }
  }, 60_000);

  it('doctor finds nothing wrong for a user who has the documented permissions', async () => {
    const rules = documentedPermissions('cluster', 'app:').filter((rule) => !rule.startsWith('>'));
    for (const node of nodes) await node.call('ACL', 'SETUSER', 'app', ...rules, '>secret');
    const url = servers.masters[0]!.url.replace('//', '//app:secret@');
    const { out, code } = await holdfast('doctor', '--json', '--url', url, '--key-prefix', 'app:');
    const ok = { state: 'ok' };
    expect(checksIn(out)).toMatchObject({ permissions: ok, cluster: ok, tracking: ok });
    expect(code).toBe(0);
  });

  it('doctor names the node that does not tell of a deleted key', async () => {
    const rules = documentedPermissions('cluster', 'app:').filter((rule) => !rule.startsWith('>'));
    for (const [index, node] of nodes.entries()) {
      const those = rules.filter((rule) => index !== 1 || rule !== '+client|tracking');
      await node.call('ACL', 'SETUSER', 'untold', ...those, '>secret');
    }
    const url = servers.masters[0]!.url.replace('//', '//untold:secret@');
    const { out, code } = await holdfast('doctor', '--json', '--url', url, '--key-prefix', 'app:');
    const { state, found } = checksIn(out)['tracking']!;
    expect({ state, code }).toEqual({ state: 'warn', code: 0 });
    expect(found).toMatch(new RegExp(`^\\S+:${String(servers.masters[1]!.port)}: NOPERM`));
  });

  it.each([0, 1, 2])('the other verbs find a lock at node %i', async (index) => {
    const name = nameAt(index);
    const hold = await (async () => {
      await using client = newClient({
        redis: servers.masters[1]!.url,
        lockWatchdogTimeout: 30_000,
      });
      return await (await client.getLock(name).acquire()).export();
    })();
    expect(hold).toBeTypeOf('string');
    expect((await holdfast('ls', name)).out).toContain(name);
    expect((await holdfast('show', name)).out).toContain('exported, and not adopted so far, by');
    expect((await holdfast('run', name, '-n', '--', 'true')).code).toBe(75);
    expect(await holdfast('force', name, '--yes')).toMatchObject({ code: 0, err: '' });
    expect(await holdfast('run', name, '--', 'true')).toMatchObject({ code: 0, err: '' });
    expect((await holdfast('bench', '--seconds', '0.2')).code).toBe(0);
  });

  it('all verbs follow a slot that moves', async () => {
    const name = nameAt(0);
    const slot = await mover.slotOf(name);
    const running = start('run', name, '--', process.execPath, '-e', 'setTimeout(() => 0, 8_000)');
    await expect
      .poll(async () => (await holdfast('show', name)).out, { timeout: 20_000 })
      .toContain('held by');
    await mover.moveBy(1, slot, async () => {
      // Meanwhile a script that uses several keys of this slot is refused (TRYAGAIN); all else goes on.
      expect(await holdfast('doctor')).toMatchObject({ code: 0, err: '' });
    });
    const [shown, listed] = await Promise.all([holdfast('show', name), holdfast('ls', name)]);
    expect(shown.out).toContain('held by');
    expect(listed.out).toContain(name);
    expect(await running.end()).toMatchObject({ code: 0, err: '' });
    expect(await holdfast('run', name, '--', 'true')).toMatchObject({ code: 0, err: '' });
  }, 60_000);

  it('all verbs name a master that is frozen', async () => {
    const frozen = servers.masters[1]!;
    const name = nameAt(1);
    const place = `${frozen.host}:${String(frozen.port)}`;
    await frozen.pause();
    try {
      const [doctor, ...others] = await Promise.all(
        [
          ['doctor', '--json'],
          ['ls'],
          ['watch'],
          ['show', name],
          ['force', name, '--yes'],
          ['run', name, '-n', '--', 'true'],
          ['run', name, '-w', '3', '--', 'true'],
          ['bench', '--seconds', '0.2'],
        ].map((args) => holdfast(...args)),
      );
      const { state, found } = checksIn(doctor!.out)['cluster']!;
      expect({ state, code: doctor!.code }).toEqual({ state: 'fail', code: 1 });
      expect(found).toContain(`the node ${place} of the cluster cannot be reached`);
      for (const ended of others) {
        expect(ended.out).toBe('');
        expect(ended.err).toContain(place);
        expect(ended.err).not.toContain('MOVED');
        expect(ended.code).toBe(69);
      }
      const own = await holdfast('ls', '--url', frozen.url);
      expectOneLine(own, 'no handshake within 5000 ms');
      expect(own.code).toBe(69);
    } finally {
      await frozen.resume();
    }
  }, 90_000);
});
