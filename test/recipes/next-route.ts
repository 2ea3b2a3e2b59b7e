// A route handler of Next.js that runs under a lock: one client for all invocations of a process, and a lease that ends by itself.
import { Holdfast, statusOf } from '../../src/index.js';

// In development, Next.js loads this module again after each change. What globalThis has stays.
const shared = globalThis as typeof globalThis & { holdfast?: Holdfast };
const holdfast = (shared.holdfast ??= new Holdfast({
  redis: process.env['REDIS_URL'] ?? 'redis://localhost:6379',
  commandTimeout: 1_000, // a connection that died while the process was frozen is noticed after a second
}));

/** POST /orders/[id]/shipment */
export async function POST(
  request: Request,
  { params }: { params: Promise<{ id: string }> },
): Promise<Response> {
  const { id } = await params;
  const lock = holdfast.getLock(`order:${id}`);
  // The lease is the time limit of the function (maxDuration): nothing renews a lock in a frozen process.
  const options = { wait: 2_000, lease: 60_000, signal: request.signal };
  try {
    return await lock.withLock(options, async ({ signal }) => {
      const url = `${process.env['SHIPPING_URL'] ?? ''}/${encodeURIComponent(id)}`;
      const shipped = await fetch(url, { method: 'POST', signal });
      return Response.json({ shipped: shipped.ok });
    });
  } catch (error) {
    console.error(error);
    const status = statusOf(error);
    if (status === 409) return answer(409, 'busy', '1');
    if (status === 503) return answer(503, 'try again later', '5');
    if (status === 500) return answer(500, 'not known whether it was shipped');
    throw error;
  }
}

function answer(status: number, error: string, retryAfter?: string): Response {
  const headers = retryAfter === undefined ? {} : { 'Retry-After': retryAfter };
  return Response.json({ error }, { status, headers });
}
