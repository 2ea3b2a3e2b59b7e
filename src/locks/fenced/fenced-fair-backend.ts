// A fenced lock that is fair, on one Redis: whoever is handed the lock is handed its token, too.

import type { ExpectedKey } from '../../core/key-types.js';
import type { KeyInTheWay } from '../../core/key-conflict.js';
import type { Server } from '../../core/server.js';
import { FairLockBackend } from '../fair/fair-backend.js';
import { TokenCounter } from './token-counter.js';

export class FencedFairBackend extends FairLockBackend {
  override readonly kind = 'FencedFairLock';
  override readonly isFenced = true;
  override readonly counter: TokenCounter;

  constructor(server: Server, name: string, newOwnerId: () => string, tokenTtlMs: number) {
    super(server, server.keyPrefix, name, newOwnerId);
    this.counter = new TokenCounter(server.connection, this.keys, tokenTtlMs);
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
