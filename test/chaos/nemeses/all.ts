// Everything that may go wrong.
import { CLOCK_NEMESES } from './clock.js';
import { COMMAND_NEMESES } from './commands.js';
import { KEY_NEMESES } from './keys.js';
import { NETWORK_NEMESES } from './network.js';
import type { Nemesis } from './nemesis.js';
import { PROCESS_NEMESES } from './process.js';
import { REPLICA_NEMESES } from './replicas.js';
import { SERVER_NEMESES } from './server.js';
import { VOTER_NEMESES } from './voters.js';

export const NEMESES: readonly Nemesis[] = [
  ...PROCESS_NEMESES,
  ...CLOCK_NEMESES,
  ...NETWORK_NEMESES,
  ...COMMAND_NEMESES,
  ...SERVER_NEMESES,
  ...KEY_NEMESES,
  ...REPLICA_NEMESES,
  ...VOTER_NEMESES,
];
