// One transfer at a time for each account, over all processes; the answer says what became of it.
import express, { type ErrorRequestHandler, type Express } from 'express';
import { LockAbortedError, statusOf, type Hold, type Holdfast } from '../../src/index.js';

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
    if (error instanceof LockAbortedError) return; // nobody is there to be answered
    const status = statusOf(error);
    if (status === undefined) {
      next(error);
      return;
    }
    console.error(error); // names hosts and addresses, which are not for everybody
    if (status !== 500) response.set('Retry-After', status === 409 ? '1' : '5');
    response.status(status).json({ error: MEANING[status] });
  }) satisfies ErrorRequestHandler);
  return app;
}

const MEANING: Record<number, string> = {
  409: 'another transfer is under way',
  503: 'try again later',
  500: 'not known whether it was made: look before you try again',
};
