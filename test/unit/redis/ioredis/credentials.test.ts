// Which credentials a client connects with: those that the user's own options have by then.
import type { Cluster, RedisOptions } from 'ioredis';
import { EventEmitter } from 'node:events';
import { describe, expect, it } from 'vitest';
import {
  followCredentials,
  followCredentialsOfNodes,
} from '../../../../src/redis/ioredis/credentials.js';

it('a client has those of the options that it follows, whenever it looks', () => {
  const given: RedisOptions = { username: 'app', password: 'old' };
  const options: RedisOptions = { ...given, db: 2 };
  followCredentials(options, () => given);
  given.password = 'new';
  given.sentinelPassword = 'other';
  expect({ ...options }).toEqual({
    ...{ username: 'app', password: 'new', db: 2 },
    ...{ sentinelUsername: undefined, sentinelPassword: 'other' },
  });
});

it('a getter that fails leaves it without, so that the server says what is wrong', () => {
  const options: RedisOptions = { password: 'old' };
  followCredentials(options, () => ({
    get password(): string {
      throw new Error('no token');
    },
  }));
  expect(options.password).toBeUndefined();
});

describe('the client of a cluster', () => {
  /** With the options of its clients for nodes, where ioredis keeps them. */
  class FakeCluster extends EventEmitter {
    readonly connectionPool: { redisOptions: RedisOptions };

    constructor(redisOptions: RedisOptions) {
      super();
      this.connectionPool = { redisOptions };
    }

    /** Makes a client for a node as ioredis does: what the node brings goes first. */
    connect(own: RedisOptions = {}): RedisOptions {
      const { redisOptions } = this.connectionPool;
      const options = { ...redisOptions, ...own };
      this.emit('+node', { options });
      return options;
    }
  }

  function following(given: RedisOptions): FakeCluster {
    const cluster = new FakeCluster({ ...given });
    followCredentialsOfNodes(cluster as unknown as Cluster, () => given);
    return cluster;
  }

  it('has them for clients that it made before, and for those that it makes', () => {
    const given = { password: 'old' };
    const cluster = following(given);
    const before = cluster.connect();
    given.password = 'new';
    expect([before.password, cluster.connect().password]).toEqual(['new', 'new']);
  });

  it('has them where they are others each time they are looked at', () => {
    let token = 0;
    const cluster = following({
      get password(): string {
        return `token ${++token}`;
      },
    });
    const node = cluster.connect();
    const first = node.password;
    expect(node.password).not.toBe(first);
  });

  it('leaves a start-up node those that it brought', () => {
    const given = { username: 'app', password: 'old' };
    const node = following(given).connect({ username: 'app', password: 'own' });
    given.password = 'new';
    expect(node).toMatchObject({ username: 'app', password: 'own' });
  });
});
