// The verb acl: the ACL SETUSER line that a user of holdfast needs. docs/how-to/permissions.md has the same lines, and a test compares them.

import { INVALIDATIONS } from '../redis/port.js';
import { type Verb } from './command.js';
import { CommandError, EXIT } from './failure.js';
import { print } from './terminal.js';

/** The commands that every client needs. */
const COMMANDS: readonly string[] =
  `ping info evalsha eval subscribe unsubscribe publish pubsub|numsub
exists get set del pttl pexpire pexpireat time hget hgetall hmget hset hdel hexists hlen
zadd zrem zrange zrangebyscore zscore type client|id client|tracking`.split(/\s/);

/** Those that a client of a cluster needs besides. */
const CLUSTER_COMMANDS: readonly string[] =
  'cluster|slots asking ssubscribe sunsubscribe spublish pubsub|shardnumsub'.split(' ');

export function commandsFor(what: {
  isCluster?: boolean;
  replicas?: boolean;
  look?: boolean;
}): string[] {
  const commands = [...COMMANDS];
  if (what.isCluster) commands.push(...CLUSTER_COMMANDS);
  if (what.replicas) commands.push('wait');
  if (what.look) commands.push('scan');
  return commands;
}

/** The keys and channels of locks with this prefix; without one, of all. */
function patternsFor(prefix: string): string[] {
  const literal = prefix.replaceAll(/[*?[\]\\]/g, '\\$&');
  const keys = [
    `${literal}*`,
    `holdfast_*:{${literal}*`,
    `holdfast_*:${literal}*`,
    `redisson_lock_token:{${literal}*`,
    `redisson_lock_token*:${literal}*`,
  ];
  const channels = ['redisson_lock__channel', 'holdfast_grants'].flatMap((channel) => [
    `${channel}:{${literal}*`,
    `${channel}:${literal}*`,
  ]);
  // One for each client, whatever its prefix; and the one on which a server tells of changed keys.
  channels.push('holdfast_wishes:*', INVALIDATIONS);
  return [...keys.map((key) => `~${key}`), ...channels.map((channel) => `&${channel}`)];
}

export const acl: Verb = {
  usage: 'acl --prefix PREFIX [--cluster] [--replicas] [--look] [--user NAME]',
  summary: 'prints the ACL SETUSER line for a user of holdfast; asks no server',
  details:
    'Replace the password. In a cluster, send the line to every node, replicas included: Redis does not replicate users.',
  options: {
    prefix: { type: 'string', help: "the clients' keyPrefix, such as app:" },
    cluster: { type: 'boolean', help: 'for a cluster' },
    replicas: { type: 'boolean', help: 'for clients with the option replicas' },
    look: { type: 'boolean', help: 'for list(), ls, watch and the live page' },
    user: { type: 'string', help: 'the name of the user (app)' },
  },
  isOffline: true,
  run({ values }) {
    const { prefix, user = 'app' } = values;
    if (typeof prefix !== 'string')
      throw new CommandError(
        '--prefix is missing: the keyPrefix of your clients, such as app: ("" if they have none)',
      );
    if (/\s/.test(prefix))
      throw new CommandError('--prefix has a space, which ACL rules cannot have');
    if (typeof user !== 'string' || !/^\S+$/.test(user))
      throw new CommandError('--user must be one word');
    const wanted = {
      isCluster: values['cluster'] === true,
      replicas: values['replicas'] === true,
      look: values['look'] === true,
    };
    const rules = [...patternsFor(prefix), ...commandsFor(wanted).map((command) => `+${command}`)];
    print(`ACL SETUSER ${user} on >secret resetkeys resetchannels -@all ${rules.join(' ')}`);
    return Promise.resolve(EXIT.ok);
  },
};
