// What the contenders of a scenario do with a simulated Redlock, and how the scenario is played to its end while an oracle looks on.
import { vi } from 'vitest';
import type { Hold } from '../../src/index.js';
import type { RedOracle } from './red-oracle.js';

interface Work {
  readonly extendMs: number | undefined;
  readonly workMs: number;
}

/** Relies on a hold, prolonged if that is asked for, and works; returns how that ends for the oracle. */
export async function work(
  hold: Hold,
  who: string,
  { extendMs, workMs }: Work,
  oracle: RedOracle,
): Promise<() => void> {
  const end = oracle.begin(who, hold);
  if (extendMs !== undefined) await hold.extend(extendMs).catch(() => undefined);
  await pass(workMs);
  return end;
}

/** Lets it go on for so long, looking after every step; then the contenders end by their signal, and all that they leave. */
export async function playOut(
  oracle: RedOracle,
  contenders: AbortController,
  durationMs: number,
  stepMs: number,
): Promise<RedOracle> {
  for (let ms = 0; ms < durationMs; ms += stepMs) {
    await vi.advanceTimersByTimeAsync(stepMs);
    oracle.look();
  }
  contenders.abort();
  await vi.advanceTimersByTimeAsync(20_000);
  return oracle;
}

export function pass(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
