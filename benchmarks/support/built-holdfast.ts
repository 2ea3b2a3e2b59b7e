// holdfast as it ships: dist/, which scripts/bench.mjs builds first. Run from src/ by tsx it would be slower, since
// tsx has esbuild keep the names of functions, at the price of one Object.defineProperty for each closure made.

import type * as holdfast from '../../src/index.js';

const built = new URL('../../dist/index.js', import.meta.url).href;

export const { Holdfast } = (await import(built)) as typeof holdfast;
