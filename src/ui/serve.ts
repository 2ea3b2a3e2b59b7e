// Serves the live page on this machine, for `npx holdfast ui`.

import type { Holdfast } from '../holdfast.js';

export interface Served {
  readonly url: string;
  close(): Promise<void>;
}

export async function serve(
  _holdfast: Holdfast,
  _options: { port: number; prefix: string; mayForce: boolean },
): Promise<Served> {
  return await Promise.reject(new Error('not yet'));
}
