// The cost of a MultiLock: to acquire, one command for the first member and one for the rest; to release, as many; all sent without waiting
// for each other.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Holdfast, type Lock } from '../../../src/index.js';
import { commandOf, loadScripts } from '../../support/lock-commands.js';
import { expectPending } from '../../support/occupancy.js';
import { recordCommands } from '../../support/recorded-commands.js';
import { startRedis, type RedisServer } from '../../support/redis-server.js';
import { startProxy } from '../../support/tcp-proxy.js';
import { uniqueName } from '../../support/unique-name.js';

/** Long enough that no reply comes before the next commands are sent. */
const SLOW_MS = 2_000;

let server: RedisServer;
let client: Holdfast;

beforeAll(async () => {
  server = await startRedis();
  await loadScripts(server.url);
  client = await connected(server.url);
});

afterAll(async () => {
  await client.close();
  await server[Symbol.asyncDispose]();
});

async function connected(url: string): Promise<Holdfast> {
  const one = new Holdfast({ redis: url });
  await one.getLock(uniqueName()).isLocked();
  return one;
}

function three(of: Holdfast): { multi: Lock; names: string[] } {
  const names = [uniqueName(), uniqueName(), uniqueName()];
  return { multi: of.getMultiLock(...names.map((name) => of.getLock(name))), names };
}

/** The commands that clients sent meanwhile, without those that scripts ran. */
async function sent(fn: () => Promise<unknown>): Promise<string[]> {
  const commands = await recordCommands(server.url, fn);
  return commands.filter(({ byScript }) => !byScript).map(({ name }) => name);
}

/** The first by itself, and the others, which follow while it is under way, together. */
const TWO = ['EVALSHA', 'EVALSHA'];
/** Commands that are not gathered. */
const THREE = ['EVALSHA', 'EVALSHA', 'EVALSHA'];

it('an uncontended acquire of three members takes two commands, and a release two', async () => {
  const { multi } = three(client);
  expect(await sent(() => multi.lock())).toEqual(TWO);
  expect(await sent(() => multi.unlock())).toEqual(TWO);
  expect(await sent(() => multi.tryLock(5_000, 60_000))).toEqual(TWO);
  expect(await sent(() => multi.unlock())).toEqual(TWO);
  const hold = await multi.acquire();
  expect(await sent(() => hold.extend(60_000))).toEqual(THREE);
  expect(await sent(() => hold.release())).toEqual(TWO);
  expect(await sent(() => hold.release())).toEqual([]);
  expect(await sent(() => multi.withLock(() => 1))).toEqual([...TWO, ...TWO]);
});

it('a tryLock() that fails costs a release for each member that was free', async () => {
  const { multi, names } = three(client);
  await using other = await connected(server.url);
  await other.getLock(names[1]!).lock();
  expect(await sent(() => multi.tryLock())).toEqual([...TWO, ...TWO]);
});

it.each(['acquire', 'release', 'extend'] as const)(
  "the commands of an %s are sent without waiting for each other's replies",
  async (what) => {
    await using proxy = await startProxy(server.port);
    await using slow = await connected(proxy.url);
    const { multi, names } = three(slow);
    const hold = what === 'acquire' ? undefined : await multi.acquire();
    proxy.delay({ downstreamMs: SLOW_MS });
    const script = what === 'extend' ? 'reenter' : what;
    const [first = '', ...others] = names;
    const passing =
      what === 'extend'
        ? names.map((name) => proxy.copyNext(commandOf(script, name)))
        : [commandOf(script, first), commandOf('gather', others[0]!)].map((command) =>
            proxy.copyNext(command),
          );
    const call =
      what === 'acquire'
        ? multi.acquire()
        : what === 'extend'
          ? hold!.extend(60_000)
          : hold!.release();
    await Promise.all(passing.map(({ happened }) => happened));
    await expectPending(call);
    proxy.delay();
    const acquired = (await call) ?? hold;
    await acquired!.release();
  },
);
