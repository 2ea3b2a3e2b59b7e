// How a client reads a server's answers to its greeting.
import { expect, it } from 'vitest';
import { failureKind, replyError } from '../../../src/redis/failure.js';
import { greet } from '../../../src/redis/greeting.js';
import type { Session } from '../../../src/redis/session.js';
import { PROCESS_CLOCK } from '../../../src/runtime/clock.js';

/** A session with a single server that answers INFO like this. */
function answering(info: () => string): Session {
  const send: Session['send'] = async (_command, _args, read, failed) => {
    try {
      return await Promise.resolve(read(info()));
    } catch (error) {
      return await failed(error as Error);
    }
  };
  const gather = (): void => undefined;
  return { isReady: true, isCluster: false, gather, send } as Partial<Session> as Session;
}

it('a server that refuses INFO for now is greeted again', async () => {
  const busy = answering(() => {
    throw replyError('BUSY Redis is busy running a script.');
  });
  const greeted = greet(busy, 0, PROCESS_CLOCK).catch((error: unknown) => error);
  expect(failureKind(await greeted)).toBe('transient');
  const ready = answering(() => 'run_id:a\r\nuptime_in_seconds:61\r\n');
  const server = await greet(ready, 0, PROCESS_CLOCK);
  expect(server).toMatchObject({ id: 'a', isAgeTold: true });
  expect(server.ageMs).toBeGreaterThanOrEqual(60_000);
});

it('a server that denies INFO counts as being as young as the connection', async () => {
  const denied = answering(() => {
    throw replyError("NOPERM User default has no permissions to run the 'info' command");
  });
  const server = await greet(denied, 0, PROCESS_CLOCK);
  expect(server.isAgeTold).toBe(false);
  expect(server.ageMs).toBeLessThan(10_000);
});
