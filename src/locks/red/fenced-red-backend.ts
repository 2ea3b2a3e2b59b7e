// The Redlock over fenced locks: its holders have a token that most masters know.

import type { LastToken } from '../reentrant/voting.js';
import { RedLockBackend } from './red-backend.js';
import { largest } from './write-back.js';

export class FencedRedLockBackend extends RedLockBackend {
  override readonly kind = 'FencedRedLock';
  readonly isFenced = true;
  readonly counter: Pick<LastToken, 'last'> = {
    /** The largest token among a majority's answers: every majority includes a master that has the last holder's token. */
    last: async () =>
      largest(await this.all('not looked at', ({ counter }) => counter?.last() ?? NONE)),
  };
}

const NONE = Promise.resolve(undefined);
