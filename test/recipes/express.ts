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
    if (error instanceof LockTimeoutError) response.status(409).json({ error: error.message });
    else if (error instanceof UnavailableError) response.status(503).json({ error: error.message });
    else next(error);
  }) satisfies ErrorRequestHandler);
  return app;
}
