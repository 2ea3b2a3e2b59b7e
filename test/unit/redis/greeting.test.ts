// What a client makes of a server's answers when it greets it.
import { expect, it } from 'vitest';
import { failureKind, replyError } from '../../../src/redis/failure.js';
import { Greeting } from '../../../src/redis/greeting.js';
import type { Session } from '../../../src/redis/session.js';
import { PROCESS_CLOCK } from '../../../src/runtime/clock.js';

/** A session with a single server that answers INFO so. */
function answering(info: () => string): Session {
  const send: Session['send'] = async (_command, _args, read, failed) => {
    try {
      return await Promise.resolve(read(info()));
    } catch (error) {
      return await failed(error as Error);
    }
  };
  const gather = (): void => undefined;
  return { isCluster: false, gather, send } as Partial<Session> as Session;
}

function newGreeting(): Greeting {
  return new Greeting(PROCESS_CLOCK, { another: () => undefined, tooOld: () => undefined });
}

it('a server that refuses INFO for now is to be greeted again', async () => {
  const greeting = newGreeting();
  const busy = answering(() => {
    throw replyError('BUSY Redis is busy running a script.');
  });
  const greeted = greeting.greet(busy, 0).catch((error: unknown) => error);
  expect(failureKind(await greeted)).toBe('transient');
  await greeting.greet(
    answering(() => 'run_id:a\r\nuptime_in_seconds:61\r\n'),
    0,
  );
  expect(greeting.isAgeTold).toBe(true);
  expect(greeting.ageMs).toBeGreaterThanOrEqual(60_000);
});

it('a server whose INFO is denied is taken to be as young as the connection', async () => {
  const greeting = newGreeting();
  const denied = answering(() => {
    throw replyError("NOPERM User default has no permissions to run the 'info' command");
  });
  await greeting.greet(denied, 0);
  expect(greeting.isAgeTold).toBe(false);
  expect(greeting.ageMs).toBeLessThan(10_000);
});
