// A process that takes and releases locks as the test tells it. One hold per lock name.
//
// Environment: HOLDFAST_TEST_REDIS_URL, or HOLDFAST_TEST_CLUSTER (JSON, a cluster's nodes); and HOLDFAST_TEST_OPTIONS (JSON,
// further options of the client).
// acquire {name, wait?, lease?, keep?}  ->  acquired {name, ownerId}, and later perhaps lost {name, lossReason}
// release {name}                 ->  released {name}
// block {ms}                     ->  blocked, after the event loop stood still that long
// close                          ->  closed; then the process ends by itself
// Whatever fails                 ->  failed {name, message, code}
import { Cluster, type ClusterNode } from 'ioredis';
import { Holdfast, LockLostError, type Hold, type HoldfastOptions } from '../../../src/index.js';
import { onMessage, stopListening, tell } from '../child-messages.js';

const nodes = process.env['HOLDFAST_TEST_CLUSTER'];
const holdfast = new Holdfast({
  redis: nodes
    ? new Cluster(JSON.parse(nodes) as ClusterNode[], { lazyConnect: true })
    : (process.env['HOLDFAST_TEST_REDIS_URL'] ?? ''),
  wait: Infinity,
  ...(JSON.parse(process.env['HOLDFAST_TEST_OPTIONS'] ?? '{}') as Partial<HoldfastOptions>),
});
const holds = new Map<string, Hold>();

interface Message {
  readonly type: string;
  readonly name: string;
  readonly wait?: number;
  readonly lease?: number;
  readonly keep?: number;
  readonly ms: number;
}

onMessage(async (message) => {
  const { type, name, wait, lease, keep, ms } = message as unknown as Message;
  switch (type) {
    case 'acquire': {
      const hold = await holdfast.getLock(name, { keep }).acquire({ wait, lease });
      holds.set(name, hold);
      hold.signal.addEventListener('abort', () => {
        const { reason } = hold.signal as { reason: unknown };
        if (reason instanceof LockLostError) tell('lost', { name, lossReason: reason.lossReason });
      });
      tell('acquired', { name, ownerId: hold.ownerId });
      return;
    }
    case 'release':
      await holds.get(name)?.release();
      tell('released', { name });
      return;
    case 'block':
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
      tell('blocked');
      return;
    case 'close':
      await holdfast.close();
      tell('closed');
      stopListening();
  }
});
tell('ready');
