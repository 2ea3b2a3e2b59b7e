import type { Nemesis } from './nemesis.js';
export const CLUSTER_NEMESES: readonly Nemesis[] = [];
