// A route handler of Next.js that runs under a lock: one client for all invocations of a process, and a lease that ends by itself.
import { Holdfast, type ErrorCode } from '../../src/index.js';

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
    // By its code: Next.js may bundle a copy of holdfast for each route, with classes of its own.
    const { code, holderTtlMs = 0 } = error as { code?: ErrorCode; holderTtlMs?: number };
    if (code === 'LOCK_TIMEOUT')
      return answer(409, 'busy', Math.max(1, Math.ceil(holderTtlMs / 1_000)));
    if (code === 'REDIS_UNAVAILABLE') return answer(503, 'try again later', 5);
    if (code === 'LOCK_LOST') return answer(500, 'not known whether it was shipped');
    throw error;
  }
}

function answer(status: number, error: string, retryAfterS?: number): Response {
  const headers = retryAfterS === undefined ? {} : { 'Retry-After': String(retryAfterS) };
  return Response.json({ error }, { status, headers });
}
