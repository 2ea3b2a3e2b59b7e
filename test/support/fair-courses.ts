// What goes on at a fair lock, for each of the commands that it sends.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { rejectionOf } from './clients.js';
import { LEASE_MS, type DisturbedLine, type Fault } from './disturbed-line.js';
import { eventually } from './eventually.js';
import type { HeldCommand } from './proxy-interceptors.js';

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
