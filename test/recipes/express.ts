// One transfer at a time for each account, over all processes.
import express, { type ErrorRequestHandler, type Express } from 'express';
import { LockTimeoutError, UnavailableError, type Holdfast } from '../../src/index.js';

type Transfer = (account: string, signal: AbortSignal) => Promise<number>;

export function bank(holdfast: Holdfast, transfer: Transfer): Express {
  const app = express();
  app.post('/accounts/:id/transfers', async (request, response) => {
    const account = request.params.id;
    const gone = new AbortController(); // whose client has gone need not wait
    response.on('close', () => {
      gone.abort();
    });
    const balance = await holdfast
      .getLock(`account:${account}`)
      .withLock({ wait: 2_000, signal: gone.signal }, (hold) => transfer(account, hold.signal));
    response.json({ balance });
  });
  app.use(((error, _request, response, next) => {
    if (error instanceof LockTimeoutError || error instanceof UnavailableError) {
      console.error(error.message); // names hosts and addresses, which are not for everybody
      const isBusy = error instanceof LockTimeoutError;
      const told = isBusy ? 'another transfer is under way' : 'try again later';
      response.status(isBusy ? 409 : 503).json({ error: told });
    } else next(error);
  }) satisfies ErrorRequestHandler);
  return app;
}
