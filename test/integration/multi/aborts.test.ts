// Aborting the acquisition of a MultiLock at any instant leaves no member behind, and no place in a line.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import type { Hold } from '../../../src/index.js';
import { connectedClient, proxyPerTest, sharedConnection } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { heldOnServer, membersPerTest } from '../../support/multi-locks.js';

/** The time of each command and of each reply. */
const TRAVEL_MS = 4;

/** From before the first command arrives to after the last reply of a call that did not have to wait. */
const INSTANTS_MS = Array.from({ length: 36 }, (_, index) => index);

const redis = sharedConnection();
const members = membersPerTest();
const proxy = proxyPerTest();

interface Aborted extends AsyncDisposable {
  readonly call: (signal: AbortSignal) => Promise<Hold>;
}

async function slowClient(): Promise<Aborted> {
  const { names } = members();
  const client = await connectedClient({
    redis: proxy().url,
    lockWatchdogTimeout: 30_000, // a leftover stays
    commandTimeout: 5_000,
  });
  proxy().delay({ upstreamMs: TRAVEL_MS, downstreamMs: TRAVEL_MS });
  const [a, b, c] = [names[0]!, names[1]!, names[2]!];
  const multi = client.getMultiLock(client.getLock(a), client.getFairLock(b), client.getLock(c));
  return {
    call: (signal) => multi.acquire({ signal }),
    [Symbol.asyncDispose]: () => client.close(),
  };
}

/** Aborts a call after this time; if it succeeded nevertheless, releases its hold as a caller would. */
async function abortAfter(ms: number, { call }: Aborted): Promise<string> {
  const aborter = new AbortController();
  const outcome = call(aborter.signal).then(
    async (hold) => {
      await hold.release();
      return 'acquired';
    },
    (error: unknown) => (error as { code: string }).code,
  );
  await sleep(ms);
  aborter.abort();
  return await outcome;
}

/** Soon, long before any lease ends. */
async function expectNothingLeft(): Promise<void> {
  const keys = members().names.flatMap((name) => [name, `*{${name}}*`]);
  await eventually(async () => {
    const left = await Promise.all(keys.map((pattern) => redis.keys(pattern)));
    expect(left.flat()).toEqual([]);
  });
}

it('an acquisition of free members that aborts leaves none of them, at any instant', async () => {
  await using aborted = await slowClient();
  const outcomes = new Set<string>();
  for (const ms of INSTANTS_MS) {
    outcomes.add(await abortAfter(ms, aborted));
    await expectNothingLeft();
  }
  expect(outcomes).toContain('LOCK_ABORTED');
  expect([...outcomes].every((code) => ['acquired', 'LOCK_ABORTED'].includes(code))).toBe(true);
});

it.each([0, 1, 2])(
  'an acquisition that waits for member %i and aborts leaves no other one, at any instant',
  async (index) => {
    const { others, names } = members();
    await using aborted = await slowClient();
    const theirs = await [others.a, others.b, others.c][index]!.acquire();
    const expected = names.map((_name, at) => (at === index ? { [theirs.ownerId]: '1' } : {}));
    for (const ms of INSTANTS_MS) {
      expect(await abortAfter(ms, aborted)).toBe('LOCK_ABORTED');
      await eventually(async () => {
        expect(await heldOnServer(redis, names)).toEqual(expected);
      });
    }
    await theirs.release();
    await expectNothingLeft();
  },
);

it('an acquisition whose member becomes free meanwhile and that aborts leaves none, at any instant', async () => {
  const { others } = members();
  await using aborted = await slowClient();
  for (const ms of INSTANTS_MS) {
    const theirs = await others.c.acquire();
    const outcome = abortAfter(ms + 2 * TRAVEL_MS, aborted);
    await sleep(INSTANTS_MS.length / 2);
    await theirs.release();
    expect(['acquired', 'LOCK_ABORTED']).toContain(await outcome);
    await expectNothingLeft();
  }
});
