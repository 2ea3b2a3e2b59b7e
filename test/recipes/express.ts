// One transfer at a time for each account, over all processes; the answer says what became of it.
import express, { type ErrorRequestHandler, type Express } from 'express';
import {
  ClosedError,
  LockLostError,
  LockTimeoutError,
  UnavailableError,
  type Hold,
  type Holdfast,
} from '../../src/index.js';

/** Calls `hold.assertHeld()` right before it writes. */
type Transfer = (account: string, hold: Hold) => Promise<number>;

export function bank(holdfast: Holdfast, transfer: Transfer): Express {
  const app = express();
  app.post('/accounts/:id/transfers', async (request, response) => {
    const account = request.params.id;
    const gone = new AbortController(); // whose client has gone need not wait
    response.on('close', () => {
      gone.abort();
    });
    const done: { balance?: number } = {};
    try {
      await holdfast
        .getLock(`account:${account}`)
        .withLock({ wait: 2_000, signal: gone.signal }, async (hold) => {
          done.balance = await transfer(account, hold);
        });
    } catch (error) {
      if (done.balance === undefined) throw error;
      console.error('made, but perhaps beside another transfer:', error); // the lock was lost meanwhile
    }
    response.json(done);
  });
  app.use(((error, _request, response, next) => {
    const [status, told, retryAfterS] = answerTo(error);
    if (status === undefined) {
      next(error);
      return;
    }
    console.error(error); // names hosts and addresses, which are not for everybody
    if (retryAfterS !== undefined) response.set('Retry-After', String(retryAfterS));
    response.status(status).json({ error: told });
  }) satisfies ErrorRequestHandler);
  return app;
}

function answerTo(error: unknown): [status?: number, told?: string, retryAfterS?: number] {
  if (error instanceof LockTimeoutError) {
    const leftS = Math.ceil((error.holderTtlMs ?? 0) / 1_000); // of the holder's lease
    return [409, 'another transfer is under way', Math.max(1, leftS)];
  }
  const isAway = error instanceof UnavailableError || error instanceof ClosedError;
  if (isAway) return [503, 'try again later', 5];
  // A step that is aborted throws the signal's reason, as fetch() does, or an AbortError with that as its cause.
  const { cause } = error instanceof Error ? error : {};
  const isLost = error instanceof LockLostError || cause instanceof LockLostError;
  return isLost ? [500, 'not known whether it was made: look before you try again'] : [];
}
