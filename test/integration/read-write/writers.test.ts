// One who writes, among many who read and never pause: how many hand-overs it takes until it is let in, as the server sees it.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { LockKeys } from '../../../src/redis/keys.js';
import { scripts } from '../../../src/redis/scripts.generated.js';
import { connectedClient } from '../../support/clients.js';
import { recordCommands, type RecordedCommand } from '../../support/recorded-commands.js';
import { startRedis } from '../../support/redis-server.js';
import { uniqueName } from '../../support/unique-name.js';

const READERS = 50;
const WRITES = 20;

it('a writer among 50 readers that never pause gets in within two hand-overs, and nobody past it', async () => {
  await using server = await startRedis();
  const options = { redis: server.url, lockWatchdogTimeout: 30_000 };
  await using one = await connectedClient(options);
  await using two = await connectedClient(options);
  await using writer = await connectedClient(options);
  const name = uniqueName('read-write');
  let isOver = false;
  const reading = Array.from({ length: READERS }, async (_, index) => {
    const half = (index % 2 === 0 ? one : two).getReadWriteLock(name).readLock();
    while (!isOver) await half.withLock(() => sleep(Math.random() * 5));
  });
  await sleep(200);
  const owners: string[] = [];
  const commands = await recordCommands(server.url, async () => {
    for (let write = 0; write < WRITES; write++) {
      const hold = await writer.getReadWriteLock(name).writeLock().acquire();
      owners.push(hold.ownerId);
      await hold.release();
    }
  });
  isOver = true;
  await Promise.all(reading);

  const calls = callsIn(commands);
  const found = owners.map((owner) => waitOf(calls, new LockKeys(name), owner));
  const waits = found.filter((wait) => wait !== undefined);
  expect(waits.length).toBeGreaterThan(WRITES / 2); // with so many readers somebody is nearly always inside
  for (const { handOvers, joins } of waits) {
    expect(handOvers).toBeLessThanOrEqual(2); // its own is one of them
    expect(joins).toBe(0);
  }
}, 60_000);

/** A script that was called, and what it did. */
interface Call {
  readonly sha1: string | undefined;
  readonly did: RecordedCommand[];
}

function callsIn(commands: readonly RecordedCommand[]): Call[] {
  const calls: Call[] = [];
  for (const command of commands) {
    if (command.byScript) calls.at(-1)?.did.push(command);
    else calls.push({ sha1: command.args[0], did: [] });
  }
  return calls;
}

/** How many were let in, by which scripts, while an owner stood in line; undefined: it did not wait. */
function waitOf(
  calls: readonly Call[],
  { line, leases }: LockKeys,
  owner: string,
): { handOvers: number; joins: number } | undefined {
  const wrote = (key: string, call: Call, value?: string): boolean =>
    call.did.some(
      ({ name, args }) =>
        name === 'ZADD' && args[0] === key && (value === undefined || args.includes(value)),
    );
  const joined = calls.findIndex((call) => wrote(line, call, owner));
  if (joined === -1) return undefined;
  const letIn = calls.findIndex((call) => wrote(leases, call, owner));
  expect(letIn).toBeGreaterThan(joined);
  const meanwhile = calls.slice(joined + 1, letIn + 1).filter((call) => wrote(leases, call));
  const count = (sha1: string): number => meanwhile.filter((call) => call.sha1 === sha1).length;
  return {
    handOvers: count(scripts.weightedHandOver.sha1),
    joins: count(scripts.weightedJoin.sha1),
  };
}
