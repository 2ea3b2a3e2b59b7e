// Commands of fair locks that are lost, or whose replies are: the lock works as if nothing had happened.
import { describe, expect, it } from 'vitest';
import { eventsOf, sharedConnection } from '../../support/clients.js';
import {
  COURSE_NAMES,
  COURSES,
  disturbedLinePerTest,
  LEASE_MS,
} from '../../support/fair-courses.js';
import { watchTtl } from '../../support/lock-commands.js';

const redis = sharedConnection();
const disturbed = disturbedLinePerTest(redis);

describe.each(['loseReplyTo', 'cutAfterForwarding', 'holdBack'] as const)('%s', (fault) => {
  it.each(COURSE_NAMES)('%s: the lock works as if nothing had happened', async (course) => {
    const { line, client, other, holder } = disturbed();
    const events = [client, other, holder].flatMap((each) => [
      eventsOf(each, 'lost'),
      eventsOf(each, 'warning'),
    ]);
    const { happened } = await COURSES[course](disturbed(), fault);
    await happened;
    expect(line.turns.at(-1)).toBe('next');
    await line.isGone();
    const after = await watchTtl(redis, line.name, LEASE_MS / 2);
    expect(new Set(after)).toEqual(new Set([-2]));
    expect(events.flat()).toEqual([]);
  });
});
