// Runs code as one owner. A lock that it still holds when it ends was forgotten: a `warning` tells of it, and it is released.

import { LockLostError } from '../api/errors.js';
import { currentScope, Scope } from '../scopes/scope.js';
import type { Warnings } from './warnings.js';

export async function runAsOneOwner<T>(fn: () => T | Promise<T>, warnings: Warnings): Promise<T> {
  const scope = new Scope(currentScope(), true);
  try {
    return await scope.run(fn);
  } finally {
    await releaseForgotten(scope, warnings);
  }
}

async function releaseForgotten(scope: Scope, warnings: Warnings): Promise<void> {
  const revocations = new Set<unknown>();
  await Promise.all(
    scope.end().map(async (hold) => {
      const { lockName, ownerId } = hold;
      const remedy = hold.isUnlockable ? 'unlock it' : 'release its hold';
      const error = new LockLostError(`lock "${lockName}" was released because its run ended`, {
        lockName,
        lossReason: 'closed',
      });
      revocations.add(error);
      try {
        await hold.revoke(error);
      } catch (loss) {
        // It was lost before, and that was told: nobody forgot to unlock it. But the members of a MultiLock are lost with the first of them.
        if (!(loss instanceof LockLostError && revocations.has(loss.cause))) return;
      }
      const message = `a run ended while it still held lock "${lockName}", which is given up now: ${remedy} before the run ends`;
      warnings.warn('forgotten unlock', lockName, message, ownerId);
    }),
  );
}
