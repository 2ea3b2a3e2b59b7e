// Takes out of a server's words what nobody must read: it repeats the arguments of a command that it does not know, those of AUTH and HELLO, too.

import { replyError } from './failure.js';

/** A server's refusal, without the client library's own error: that one may carry what was sent. */
export function refusal(words: string): Error {
  // As in: ERR unknown command 'AUTH', with args beginning with: 'secret'
  return replyError(words.replace(/,? with args beginning with:.*/s, ''));
}
