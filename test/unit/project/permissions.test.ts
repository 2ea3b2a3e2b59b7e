// The permissions that the README asks for are exactly the commands that the scripts and the client send.
import { describe, expect, it } from 'vitest';
import { scripts } from '../../../src/redis/scripts.generated.js';
import { permittedCommands, documentedPermissions } from '../../support/users.js';

/** The commands that the client sends besides those in the scripts. */
const OF_THE_CLIENT = {
  server: [
    ...['ping', 'info', 'evalsha', 'eval', 'subscribe', 'unsubscribe', 'type'],
    ...['client|id', 'client|tracking'],
  ],
  cluster: ['cluster|slots', 'asking', 'ssubscribe', 'sunsubscribe'],
};
const PUBLISHED_BY = {
  server: ['publish', 'pubsub|numsub'],
  cluster: ['spublish', 'pubsub|shardnumsub'],
};

const ofScripts = Object.values(scripts)
  .flatMap(({ source }) => [...source.matchAll(/(?:redis\.p?call|ours|refusal)\(\s*'(\w+)'/g)])
  .map(([, command = '']) => command.toLowerCase())
  .filter((command) => command !== 'pubsub'); // with its subcommand, by kind of server

describe('the permissions in the README', () => {
  it('on a server are the commands that are sent', () => {
    const needed = new Set([...ofScripts, ...OF_THE_CLIENT.server, ...PUBLISHED_BY.server]);
    expect(permittedCommands(documentedPermissions('server', 'app:')).sort()).toEqual(
      [...needed].sort(),
    );
  });

  it('in a cluster are those and the commands for a cluster', () => {
    const needed = new Set([
      ...permittedCommands(documentedPermissions('server', 'app:')),
      ...OF_THE_CLIENT.cluster,
      ...PUBLISHED_BY.cluster,
    ]);
    expect(permittedCommands(documentedPermissions('cluster', 'app:')).sort()).toEqual(
      [...needed].sort(),
    );
  });
});
