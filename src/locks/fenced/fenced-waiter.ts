// A caller who wants a fenced lock. It stands in the line of this client like those who want the plain lock, but no grant is passed on to
// it there: each holder's token comes from the server.

import { ReentrantWaiter } from '../reentrant/reentrant-waiter.js';

export class FencedWaiter extends ReentrantWaiter {
  protected override readonly mayInherit = false;
}
