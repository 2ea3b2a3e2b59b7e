// Everything that may go wrong.
import { PROCESS_NEMESES } from './processes.js';
import { COMMAND_NEMESES, NETWORK_NEMESES } from './network.js';
import { KEY_NEMESES, REPLICA_NEMESES, SERVER_NEMESES } from './servers.js';
import type { Nemesis } from '../stage/stage.js';
import { VOTER_NEMESES } from './voters.js';

export const NEMESES: readonly Nemesis[] = [
  ...PROCESS_NEMESES,
  ...NETWORK_NEMESES,
  ...COMMAND_NEMESES,
  ...SERVER_NEMESES,
  ...KEY_NEMESES,
  ...REPLICA_NEMESES,
  ...VOTER_NEMESES,
];
