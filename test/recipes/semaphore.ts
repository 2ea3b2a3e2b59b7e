// No more than ten requests at a time to a partner's API, over all processes; a large one counts for four.
import type { Holdfast } from '../../src/index.js';

export async function callPartner<T>(
  holdfast: Holdfast,
  request: (signal: AbortSignal) => Promise<T>,
  permits = 1,
): Promise<T> {
  const partner = holdfast.getSemaphore('api:partner', { permits: 10 });
  return await partner.withPermits({ permits, wait: 30_000 }, ({ signal }) => request(signal));
}
