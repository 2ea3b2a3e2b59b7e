// Why none of several servers is of use that know the way to Redis: Sentinels, or the nodes of a cluster.

import { failureKind, isMereLoss, isReply, isUnreachable, noneReached } from './failure.js';

/** What says most of what those who were `tried` have `said`. */
export function whyNone(what: string, tried: readonly string[], said: readonly Error[]): Error {
  return (
    said.find((error) => failureKind(error) === 'denied') ??
    said.find((error) => isReply(error)) ??
    said.find((error) => !isMereLoss(error) && !isUnreachable(error)) ??
    noneReached(what, tried, said)
  );
}
