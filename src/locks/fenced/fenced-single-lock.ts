// A fenced lock on one Redis: a lock of one name, and the tokens that it gave.

import type { FencedHold, FencedLock, FencedLockOptions } from '../../api/fenced-lock.js';
import type { Hold } from '../../api/hold.js';
import { parseName, type AcquireOptions, type LockOptions } from '../../api/options.js';
import type { Server } from '../../core/server.js';
import type { Session } from '../../core/session.js';
import { SingleLock } from '../single-lock.js';
import { FencedBackend } from './fenced-backend.js';
import { FencedFairBackend } from './fenced-fair-backend.js';
import { parseFencedLock } from './settings.js';

type Tokens = Pick<FencedLock, 'getToken' | 'lockAndGetToken' | 'tryLockAndGetToken'>;

class FencedSingleLock extends SingleLock<FencedBackend | FencedFairBackend> implements Tokens {
  async getToken(): Promise<bigint | undefined> {
    const { session, backend } = this.parts;
    return await session.ask(backend, () => backend.counter.last());
  }

  async lockAndGetToken(lease?: number | LockOptions): Promise<bigint> {
    return tokenOf(await this.lockHold('lockAndGetToken()', lease));
  }

  async tryLockAndGetToken(
    wait?: number | AcquireOptions,
    lease?: number,
  ): Promise<bigint | undefined> {
    const hold = await this.tryLockHold('tryLockAndGetToken()', wait, lease);
    return hold && tokenOf(hold);
  }
}

/** Every hold of a fenced lock has one: a grant is one of its scripts', or the acquisition was refused. */
function tokenOf(hold: Hold): bigint {
  return (hold as FencedHold).token;
}

export function fencedLock(
  session: Session,
  server: Server,
  name: unknown,
  options: FencedLockOptions,
): FencedLock {
  const lockName = parseName(name);
  const { isFair, tokenTtlMs } = parseFencedLock(options);
  const Backend = isFair ? FencedFairBackend : FencedBackend;
  const backend = new Backend(server, lockName, session.newOwnerId, tokenTtlMs);
  return new FencedSingleLock(session, backend) as FencedLock;
}
