// A fenced lock, on one Redis or on a quorum of them: a lock of one name, and the tokens that it gave.

import type { FencedHold, FencedLock, FencedLockOptions } from '../../api/fenced-lock.js';
import type { Hold } from '../../api/hold.js';
import { parseName, type AcquireOptions, type LockOptions } from '../../api/options.js';
import type { LockBackend } from '../../core/backend.js';
import type { Server } from '../../core/server.js';
import type { Session } from '../../core/session.js';
import type { LastToken } from '../reentrant/voting.js';
import { SingleLock } from '../single-lock.js';
import { FencedBackend } from './fenced-backend.js';
import { FencedFairBackend } from './fenced-fair-backend.js';
import { parseFencedLock } from './settings.js';

type Tokens = Pick<FencedLock, 'getToken' | 'lockAndGetToken' | 'tryLockAndGetToken'>;

interface TokenGivingBackend extends LockBackend {
  readonly counter: Pick<LastToken, 'last'>;
}

class FencedSingleLock extends SingleLock<TokenGivingBackend> implements Tokens {
  async getToken(): Promise<bigint | undefined> {
    const { session, backend } = this.parts;
    return await session.ask(backend, async () => {
      const token = await backend.counter.last();
      if (token === undefined) await backend.remainTimeToLive(); // throws where something else has the name
      return token;
    });
  }

  lockAndGetToken(lease?: number | LockOptions): Promise<bigint> {
    return this.marking(() => this.lockHold('lockAndGetToken()', lease), tokenOf);
  }

  tryLockAndGetToken(wait?: number | AcquireOptions, lease?: number): Promise<bigint | undefined> {
    return this.marking(
      () => this.tryLockHold('tryLockAndGetToken()', wait, lease),
      (hold) => hold && tokenOf(hold),
    );
  }
}

/** The hold's token. Every hold of a fenced lock has one: its grant was made with a token, or the acquisition was refused. */
function tokenOf(hold: Hold): bigint {
  return (hold as FencedHold).token;
}

/** Every hold that such a lock returns is a {@link FencedHold}, though the types of {@link SingleLock} do not say so. */
export function fencedLockOver(session: Session, backend: TokenGivingBackend): FencedLock {
  return new FencedSingleLock(session, backend) as FencedLock;
}

export function fencedLock(
  session: Session,
  server: Server,
  name: unknown,
  options: FencedLockOptions,
): FencedLock {
  const lockName = parseName(name);
  const { isFair, tokenTtlMs } = parseFencedLock(lockName, options);
  const Backend = isFair ? FencedFairBackend : FencedBackend;
  const backend = new Backend(server, lockName, session.newOwnerId, tokenTtlMs);
  return fencedLockOver(session, backend);
}
