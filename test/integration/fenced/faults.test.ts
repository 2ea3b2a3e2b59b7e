// Commands of fenced locks that are lost, doubled or late: a token may be used up, none is issued twice, and none is smaller than an
// earlier one.
import { beforeEach, describe, expect, it } from 'vitest';
import type { FairLock } from '../../../src/index.js';
import {
  connectedClient,
  newClient,
  proxyPerTest,
  sharedConnection,
} from '../../support/clients.js';
import { COURSE_NAMES, COURSES, disturbedLinePerTest } from '../../support/fair-courses.js';
import {
  counterOf,
  expectGrowing,
  FENCED_KINDS,
  noting,
  passThrough,
} from '../../support/fenced-locks.js';
import { commandOf } from '../../support/lock-commands.js';
import { uniqueName } from '../../support/unique-name.js';

const redis = sharedConnection();

describe.each(FENCED_KINDS)('$title', ({ options, script }) => {
  const proxy = proxyPerTest();
  let name: string;

  beforeEach(() => {
    name = uniqueName('fenced');
  });

  it.each(['loseReplyTo', 'cutAfterForwarding', 'holdBack'] as const)(
    'acquired by a command that was sent twice, has the token of the later one (%s)',
    async (fault) => {
      await using client = await connectedClient({ redis: proxy().url, commandTimeout: 5_000 });
      await using other = newClient();
      const lock = client.getFencedLock(name, options);
      const theirs = other.getFencedLock(name, options);
      const tokens = [await passThrough(theirs)];
      const { happened } = proxy()[fault](commandOf(script, name));
      const hold = await lock.acquire();
      await happened;
      tokens.push(hold.token);
      expect(await lock.getToken()).toBe(hold.token);
      expect(await redis.hgetall(name)).toEqual({ [hold.ownerId]: '1' });
      await hold.release();
      tokens.push(await passThrough(theirs));
      expectGrowing(tokens);
    },
  );

  it('whose acquire arrives once more while it is held, still issues a larger token to the next holder', async () => {
    await using client = await connectedClient({ redis: proxy().url });
    await using other = newClient();
    const lock = client.getFencedLock(name, options);
    const copy = proxy().copyNext(commandOf(script, name));
    const hold = await lock.acquire();
    await copy.deliver();
    await copy.deliver();
    const used = await lock.getToken();
    expect(used).toBeGreaterThan(hold.token);
    await hold.release();
    expectGrowing([hold.token, used, await passThrough(other.getFencedLock(name, options))]);
  });

  it('whose acquire arrives once more while somebody else has it, uses up no token', async () => {
    await using client = await connectedClient({ redis: proxy().url });
    await using other = newClient();
    const copy = proxy().copyNext(commandOf(script, name));
    await passThrough(client.getFencedLock(name, options));
    await using hold = await other.getFencedLock(name, options).acquire();
    await copy.deliver();
    expect(await redis.get(counterOf(name))).toBe(String(hold.token));
    expect(await redis.hkeys(name)).toEqual([hold.ownerId]);
    await redis.del(`holdfast_line:{${name}}`, `holdfast_places:{${name}}`); // of a caller that is gone
  });

  it('whose acquire arrives after its caller has gone, uses up one token and does nothing else', async () => {
    await using client = await connectedClient({ redis: proxy().url, commandTimeout: 400 });
    await using other = newClient();
    const theirs = other.getFencedLock(name, options);
    const before = await passThrough(theirs);
    const late = proxy().holdBack(commandOf(script, name), 'silence');
    const gone = client.getFencedLock(name, options).acquire({ wait: 300 });
    await expect(gone).rejects.toMatchObject({ code: 'REDIS_UNAVAILABLE' });
    await late.deliver();
    const used = BigInt((await redis.get(counterOf(name))) ?? 0);
    await redis.del(name); // nobody renews it
    expectGrowing([before, used, await passThrough(theirs)]);
  });
});

describe('a fenced fair lock', () => {
  const disturbed = disturbedLinePerTest(redis);

  describe.each(['loseReplyTo', 'cutAfterForwarding', 'holdBack', 'copyNext'] as const)(
    '%s',
    (fault) => {
      it.each(COURSE_NAMES)('%s: tokens grow from holder to holder', async (course) => {
        const tokens: (bigint | undefined)[] = [];
        const { line } = disturbed();
        line.lockOf = (client) =>
          noting(client.getFencedLock(line.name, { fair: true }), tokens) as unknown as FairLock;
        const late = await COURSES[course](disturbed(), fault);
        await late.happened;
        if (fault === 'copyNext' || fault === 'holdBack') await late.deliver();
        expect(line.turns.at(-1)).toBe('next');
        expect(tokens.length).toBeGreaterThanOrEqual(2);
        const last = BigInt((await redis.get(counterOf(line.name))) ?? 0);
        expectGrowing(tokens);
        expect(last).toBeGreaterThanOrEqual(tokens.at(-1)!);
        await redis.del(...line.keys); // of a late join
      });
    },
  );
});
