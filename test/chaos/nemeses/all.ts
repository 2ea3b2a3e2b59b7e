// Everything that may go wrong.
import { PROCESS_NEMESES } from './processes.js';
import { COMMAND_NEMESES, NETWORK_NEMESES } from './network.js';
import { KEY_NEMESES, REPLICA_NEMESES, SERVER_NEMESES } from './servers.js';
import { TAKING_NEMESES } from './takings.js';
import type { Nemesis } from '../stage/stage.js';
import { VOTER_NEMESES } from './voters.js';

/** What goes wrong beside locks that are taken away: few of those faults last, since nobody is told meanwhile. */
const TOO_WHEN_LONG = new Set([
  'stop a process',
  'block an event loop',
  'suspend a process',
  'cut connections',
  'half-close connections',
  'lose, double and delay messages',
  'CLIENT KILL',
  'SCRIPT FLUSH',
  'a replica takes over in order',
  'a slot moves',
]);

const OF_SHORT: readonly Nemesis[] = [
  ...PROCESS_NEMESES,
  ...NETWORK_NEMESES,
  ...COMMAND_NEMESES,
  ...SERVER_NEMESES,
  ...KEY_NEMESES,
  ...REPLICA_NEMESES,
  ...VOTER_NEMESES,
];

export const NEMESES: readonly Nemesis[] = [
  ...OF_SHORT.map((each) =>
    TOO_WHEN_LONG.has(each.name) ? { ...each, whenLong: 'too' as const } : each,
  ),
  ...TAKING_NEMESES,
];
