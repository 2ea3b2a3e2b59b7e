// The library that the worker tries: the present one, or a mutant of it.
import type * as Library from '../../../src/index.js';

const path = process.env['HOLDFAST_CHAOS_LIBRARY'] ?? '../../../src/index.js';

export const { Holdfast: HoldfastOf } = (await import(path)) as typeof Library;
