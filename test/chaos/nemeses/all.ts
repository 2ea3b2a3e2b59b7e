// Everything that may go wrong.
import { CLOCK_NEMESES } from './clock.js';
import { CLUSTER_NEMESES } from './cluster.js';
import { COMMAND_NEMESES } from './commands.js';
import { NETWORK_NEMESES } from './network.js';
import type { Nemesis } from './nemesis.js';
import { PROCESS_NEMESES } from './process.js';
import { SENTINEL_NEMESES } from './sentinel.js';
import { SERVER_NEMESES } from './server.js';

export const NEMESES: readonly Nemesis[] = [
  ...PROCESS_NEMESES,
  ...CLOCK_NEMESES,
  ...NETWORK_NEMESES,
  ...COMMAND_NEMESES,
  ...SERVER_NEMESES,
  ...SENTINEL_NEMESES,
  ...CLUSTER_NEMESES,
];
