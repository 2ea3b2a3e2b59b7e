// A user who lacks a command goes through what locks can do, until an error or an event names it.
import type { Cluster, Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import {
  LockLostError,
  type Holdfast,
  type HoldfastOptions,
  type Lock,
  type Semaphore,
} from '../../src/index.js';
import { uniqueName } from './unique-name.js';

/** Well above what the steps take, and far below what a lease of the default length would. */
const PROMPTLY_MS = 8_000;

export interface DeniedUser {
  readonly newClient: (options: Partial<HoldfastOptions>) => Holdfast;
  /** May do everything. */
  readonly admin: Redis | Cluster;
  readonly keyPrefix: string;
  /** The end of the locks' names. */
  readonly nameShape?: string;
  /** Once the clients have connected. */
  readonly prepare?: (lockName: string) => Promise<void>;
}

/** Fails unless the command is named; returns the words. */
export async function whatIsTold(command: string, user: DeniedUser): Promise<string> {
  const { newClient, admin, keyPrefix, nameShape = '', prepare } = user;
  const [container, subcommand] = command.split('|');
  // Redis 6.2 says of CLUSTER SLOTS: "the 'cluster' command or its subcommand".
  const pattern = subcommand
    ? new RegExp(`\\b${command.replace('|', '[| ]')}\\b|'${container}' command or its sub`, 'i')
    : new RegExp(`\\b${command}\\b`, 'i');
  const told: string[] = [];
  const tell = ({ message }: Error): void => {
    told.push(message);
  };
  const options = { lockWatchdogTimeout: 1_500, commandTimeout: 1_000 };
  await using one = newClient(options);
  await using two = newClient(options);
  for (const client of [one, two])
    client.on('error', ({ error }) => {
      tell(error);
    });
  const name = uniqueName('denied') + nameShape;
  await prepare?.(keyPrefix + name);
  const steps = [
    () => oneAfterTheOther(one.getLock(name), two.getLock(name)),
    () => oneAfterTheOther(one.getFairLock(name), two.getFairLock(name)),
    () => one.getLock(name).forceUnlock(),
    () => permits(one.getSemaphore(name, { permits: 1 }), two.getSemaphore(name, { permits: 1 })),
    () => one.run(() => one.getLock(name).getHoldCount()),
    () => one.getFairLock(name).getWaiters(),
    () => one.getLock(name).remainTimeToLive(),
    () => one.getLock(name).isLocked(),
    () => conflict(one.getLock(name)),
  ];
  const found = (): string | undefined => told.find((message) => pattern.test(message));
  for (const step of steps) if (found() === undefined) await step().catch(tell);
  await expect
    .poll(found, { timeout: PROMPTLY_MS, message: told.join('\n') })
    .toEqual(expect.any(String));
  await admin.del(keyPrefix + name);
  return found() ?? '';

  async function conflict(lock: Lock): Promise<void> {
    await admin.set(keyPrefix + lock.name, 'not a lock', 'PX', 10_000);
    await lock.acquire({ wait: 500 });
  }
}

/** Two callers: one holds the permits while the other waits for them. */
async function permits(first: Semaphore, second: Semaphore): Promise<void> {
  await using hold = await first.acquire({ wait: 1_000 });
  await first.availablePermits();
  const waiting = second.withPermits({ wait: 2_000 }, () => undefined);
  await Promise.all([waiting, sleep(100).then(() => hold.release())]);
}

/** Two callers: one holds, re-enters and extends, while the other waits for it. */
async function oneAfterTheOther(first: Lock, second: Lock): Promise<void> {
  await using hold = await first.acquire({ wait: 1_000 });
  await hold.run(() => first.withLock(() => undefined));
  await hold.extend(5_000);
  const waiting = second.withLock({ wait: 2_000, lease: 700 }, () => sleep(100));
  await Promise.all([waiting, sleep(100).then(() => hold.release())]);
  await first
    .withLock(() => second.forceUnlock().then(() => sleep(600)))
    .catch((error: unknown) => {
      if (!(error instanceof LockLostError)) throw error;
    });
}
