import type { Nemesis } from './nemesis.js';
export const SENTINEL_NEMESES: readonly Nemesis[] = [];
