// What a failed command means: did the server answer, and does asking again help?

/**
 * - `unanswered`: no reply came; the command may or may not have run
 * - `transient`: the server refused for now (loading, read-only, out of memory …)
 * - `denied`: the server will refuse until somebody changes the credentials or the ACL
 * - `conflict`: the key holds something that is not a lock
 * - `defect`: any other error reply
 */
export type FailureKind = 'unanswered' | 'transient' | 'denied' | 'conflict' | 'defect';

const TRANSIENT =
  /^(LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|BUSY|OOM|MISCONF|NOREPLICAS|MOVED|ASK|UNBLOCKED|ERR max number of clients)/;
const DENIED = /^(WRONGPASS|NOAUTH|NOPERM|ERR invalid password|ERR Client sent AUTH|ERR AUTH)/;
const CONFLICT = /(^|\s)(WRONGTYPE|KEYCONFLICT) /;

export function failureKind(error: unknown): FailureKind {
  if (!(error instanceof Error) || error.name !== 'ReplyError') return 'unanswered';
  if (TRANSIENT.test(error.message)) return 'transient';
  if (DENIED.test(error.message)) return 'denied';
  return CONFLICT.test(error.message) ? 'conflict' : 'defect';
}
