// Why none of several servers is of use that know the way to Redis: of what those who were `tried` have `said`, what says most.

import { failureKind, isMereLoss, isReply, isUnreachable, noneReached } from './failure.js';

export function whyNone(what: string, tried: readonly string[], said: readonly Error[]): Error {
  return (
    said.find((error) => failureKind(error) === 'denied') ??
    said.find((error) => isReply(error)) ??
    said.find((error) => !isMereLoss(error) && !isUnreachable(error)) ??
    noneReached(what, tried, said)
  );
}
