// The driver for ioredis keeps the contract of drivers: in both forms of its replies, where it knows both.
import { Cluster, Redis } from 'ioredis';
import { ioredisDriver } from '../../../src/redis/ioredis/driver.js';
import { driverContract } from '../../support/driver-contract.js';

driverContract('ioredis', {
  toServer: ioredisDriver,
  toCluster: (nodes, user) =>
    ioredisDriver(new Cluster(nodes, { lazyConnect: true, redisOptions: { ...user } })),
});

// ioredis 5 does not know the option, and would speak RESP2 a second time.
const knowsResp3 = 'protocol' in new Redis({ lazyConnect: true }).options;
const resp3: object = { protocol: 3 };
if (knowsResp3) {
  driverContract('ioredis with RESP3', {
    toServer: (url) => ioredisDriver(new Redis(url, { lazyConnect: true, ...resp3 })),
    toCluster: (nodes, user) =>
      ioredisDriver(new Cluster(nodes, { lazyConnect: true, redisOptions: { ...resp3, ...user } })),
  });
} else console.log('ioredis 5 speaks RESP2 only: not run with RESP3');
