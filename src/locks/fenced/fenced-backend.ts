// A fenced lock on one Redis: the reentrant lock, whose grants have a token. The data is that of Redisson's RFencedLock.

import type { ExpectedKey } from '../../core/key-types.js';
import type { KeyInTheWay } from '../../core/key-conflict.js';
import type { LockRequest } from '../../core/request.js';
import type { Server } from '../../core/server.js';
import type { Waiter } from '../../core/waiter.js';
import { ReentrantLockBackend } from '../reentrant/reentrant-backend.js';
import { FencedWaiter } from './fenced-waiter.js';
import { TokenCounter } from './token-counter.js';

export class FencedBackend extends ReentrantLockBackend {
  override readonly kind = 'FencedLock';
  override readonly isFenced = true;
  override readonly counter: TokenCounter;

  constructor(server: Server, name: string, newOwnerId: () => string, tokenTtlMs: number) {
    super(server, server.keyPrefix, name, newOwnerId);
    this.counter = new TokenCounter(server.connection, this.keys, tokenTtlMs);
  }

  override waiter(newOwnerId: () => string, request: LockRequest): Waiter {
    return new FencedWaiter(this, newOwnerId(), request);
  }

  protected override get fencing(): TokenCounter {
    return this.counter;
  }

  override async keyInTheWay(): Promise<KeyInTheWay | undefined> {
    return (await this.counter.inTheWay()) ?? (await super.keyInTheWay());
  }

  protected override get expectedKeys(): ExpectedKey[] {
    return [...super.expectedKeys, this.counter.expectedKey];
  }
}
