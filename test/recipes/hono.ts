// A middleware for Hono: what stands behind it runs under a lock, which the request names; the answer says what became of it.
import type { Context } from 'hono';
import { createMiddleware } from 'hono/factory';
import { LockLostError, statusOf, type Hold, type Holdfast } from '../../src/index.js';

interface Held {
  Variables: { hold: Hold };
}

export const underLock = (holdfast: Holdfast, nameOf: (c: Context) => string) =>
  createMiddleware<Held>(async (c, next) => {
    try {
      const options = { wait: 2_000, signal: c.req.raw.signal }; // whose client has gone need not wait
      await holdfast.getLock(nameOf(c)).withLock(options, async (hold) => {
        c.set('hold', hold);
        await next();
      });
      return;
    } catch (error) {
      if (c.error) return; // the handler's own error, which Hono has answered
      console.error(error); // names hosts and addresses, which are not for everybody
      if (error instanceof LockLostError) {
        c.res = c.json({ error: 'not known what was done: look before you try again' }, 500);
        return;
      }
      const status = statusOf(error);
      if (status === 409) return c.json({ error: 'busy' }, 409, { 'Retry-After': '1' });
      if (status === 503) return c.json({ error: 'try again later' }, 503, { 'Retry-After': '5' });
      throw error;
    }
  });
