// One transfer at a time for each account, over all processes.
import Fastify, { type FastifyInstance, type FastifyRequest } from 'fastify';
import type { HoldfastOptions } from '../../src/index.js';
import holdfastPlugin from '../../src/adapters/fastify.js';

/** Passes the signal on to what must stop if the lock is lost. */
type Transfer = (account: string, signal?: AbortSignal) => Promise<number>;
type OfAccount = FastifyRequest<{ Params: { id: string } }>;

export async function bank(options: HoldfastOptions, transfer: Transfer): Promise<FastifyInstance> {
  const app = Fastify();
  await app.register(holdfastPlugin, options); // before the routes, and awaited
  app.post(
    '/accounts/:id/transfers',
    { config: { lock: { name: ({ params }: OfAccount) => `account:${params.id}`, wait: 2_000 } } },
    async ({ params, hold }: OfAccount) => ({ balance: await transfer(params.id, hold?.signal) }),
  );
  return app;
}
