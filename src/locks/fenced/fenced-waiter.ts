// A caller who wants a fenced lock. It stands in the line of this client like those who want the plain lock, but takes over nothing
// there: each holder's token comes from the server.

import { ReentrantWaiter } from '../reentrant/reentrant-waiter.js';

export class FencedWaiter extends ReentrantWaiter {
  protected override readonly mayInherit = false;
}
