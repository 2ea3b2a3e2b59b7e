import { LockLostError, type Holdfast } from '../../../../src/index.js';

/** Sends the report as the only one who does. If the lock is lost on the way, it is sent once more. */
export async function sendReport(
  holdfast: Holdfast,
  send: (signal: AbortSignal) => Promise<void>,
): Promise<void> {
  for (;;) {
    try {
      await holdfast.getLock('report').withLock((hold) => send(hold.signal));
      return;
    } catch (error) {
      if (!(error instanceof LockLostError)) throw error;
    }
  }
}
