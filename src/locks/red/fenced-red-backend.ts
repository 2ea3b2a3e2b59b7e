// The Redlock over fenced locks: its holders have a token that most masters know.

import type { LastToken } from '../reentrant/voting.js';
import { RedLockBackend } from './red-backend.js';
import { largest } from './write-back.js';

export class FencedRedLockBackend extends RedLockBackend {
  override readonly kind = 'FencedRedLock';
  readonly isFenced = true;
  readonly counter: Pick<LastToken, 'last'> = {
    /**
     * The largest token among a majority's answers: every majority includes a master that had the last holder's token. That one may have
     * restarted since, however long ago, so no guard by its age would help. It is for people: an election does not rely on it (`write-back.ts`).
     */
    last: async () =>
      largest(await this.all('not looked at', ({ counter }) => counter?.last() ?? NONE)),
  };
}

const NONE = Promise.resolve(undefined);
