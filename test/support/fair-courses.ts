// What goes on at a fair lock, for each of the commands that it sends, and how one of them is disturbed on its way.
import type { Redis } from 'ioredis';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import type { Holdfast } from '../../src/index.js';
import type { scripts } from '../../src/redis/scripts.generated.js';
import { newClient, proxyPerTest, rejectionOf } from './clients.js';
import { fairClientsPerTest, type FairLine } from './fair-line.js';
import { commandOf } from './lock-commands.js';
import type { HeldCommand } from './tcp-proxy.js';
import { eventually } from './time.js';

type Course = (disturbed: DisturbedLine, fault: Fault) => Promise<HeldCommand>;

/** Each one runs to its end, with everybody served in order, and disturbs the command that it is called after. */
export const COURSES = {
  'join that takes the lock': async ({ line, client, other, disturb }, fault) => {
    const late = disturb(fault, 'join');
    const hold = await line.lockOf(client).acquire();
    const next = await line.join(other, 'next');
    await hold.release();
    await next.done;
    return late;
  },
  'join that stands in line': async ({ line, client, other, holder, disturb }, fault) => {
    const hold = await line.lockOf(holder).acquire();
    const late = disturb(fault, 'join');
    const first = await line.join(client, 'first');
    const next = await line.join(other, 'next');
    await hold.release();
    await Promise.all([first.done, next.done]);
    return late;
  },
  'renewal of a place': async ({ line, client, other, holder, disturb }, fault) => {
    const hold = await line.lockOf(holder).acquire();
    const first = await line.join(client, 'first');
    const next = await line.join(other, 'next');
    const late = disturb(fault, 'renewPlaces');
    await late.happened;
    await sleep(LEASE_MS);
    await hold.release();
    await Promise.all([first.done, next.done]);
    return late;
  },
  'hand-over by a release': async ({ line, client, other, disturb }, fault) => {
    const hold = await line.lockOf(client).acquire();
    const next = await line.join(other, 'next');
    const late = disturb(fault, 'handOver');
    await hold.release();
    await next.done;
    return late;
  },
  'leave of the line': async ({ line, client, other, holder, disturb }, fault) => {
    const hold = await line.lockOf(holder).acquire();
    const aborter = new AbortController();
    const first = await line.join(client, 'first', { signal: aborter.signal });
    const next = await line.join(other, 'next');
    const late = disturb(fault, 'handOver');
    aborter.abort();
    expect(await rejectionOf(first.done)).toMatchObject({ code: 'LOCK_ABORTED' });
    await line.hasLength(1);
    await hold.release();
    await next.done;
    return late;
  },
  'confirmation of a hand-over': async ({ line, client, other, holder, disturb }, fault) => {
    const hold = await line.lockOf(holder).acquire();
    const late = disturb(fault, 'confirm');
    const body = async (): Promise<void> => {
      await late.happened;
      await eventually(async () => {
        expect((await line.ttls())[0]).toBeGreaterThan(50_000);
      });
    };
    const first = await line.join(client, 'first', { lease: 60_000, body });
    const next = await line.join(other, 'next');
    await hold.release();
    await Promise.all([first.done, next.done]);
    return late;
  },
} satisfies Record<string, Course>;

export const COURSE_NAMES = Object.keys(COURSES) as (keyof typeof COURSES)[];

// The line of a fair lock, one client whose commands can be disturbed on their way, and two others.

type Fault = 'loseReplyTo' | 'cutAfterForwarding' | 'holdBack' | 'copyNext';

/** The holder's is longer than a test. */
export const LEASE_MS = 1_500;

interface DisturbedLine {
  readonly line: FairLine;
  /** Goes through the proxy. */
  readonly client: Holdfast;
  readonly other: Holdfast;
  readonly holder: Holdfast;
  /** Does this to the next run of this script by the client. */
  readonly disturb: (fault: Fault, script: keyof typeof scripts) => HeldCommand;
}

/** For each test of the file that this is called in; returns the present test's. */
export function disturbedLinePerTest(redis: Redis): () => DisturbedLine {
  const proxy = proxyPerTest();
  // The time-out: so that a command is repeated rather than given up.
  const options = { lockWatchdogTimeout: LEASE_MS, commandTimeout: 5_000 };
  const clients = fairClientsPerTest(redis, () => ({
    client: newClient({ ...options, redis: proxy().url }),
    other: newClient(options),
    holder: newClient({ lockWatchdogTimeout: 30_000 }),
  }));
  return () => {
    const present = clients();
    const disturb: DisturbedLine['disturb'] = (fault, script) =>
      proxy()[fault](commandOf(script, present.line.name)) as HeldCommand;
    return { ...present, disturb };
  };
}
