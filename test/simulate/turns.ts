// The end of a round: nothing goes wrong any more, and clients whose callers all want one lock, again and again, must get it about equally often.
import type * as Library from '../../src/index.js';
import type * as Port from '../../src/redis/port.js';
import { violation, type Violation } from '../chaos/checker/evidence.js';
import type { Kind } from '../chaos/plan.js';
import { Random } from '../chaos/random.js';
import { loaded } from './library.js';
import { Link, SimServer } from './network.js';
import { SimProcess, VirtualTime } from './time.js';
import { libraryOf } from './world.js';

const { Holdfast } = await loaded<typeof Library>('index');
const { LIBRARY } = await loaded<typeof Port>('redis/port');

/** For how long they want it, and how much longer it may take until all have stopped and are closed. */
const FOR_MS = 1_000;
const SLACK_MS = 5_000;
/** No client gets less than this part of an even share. */
const LEAST_SHARE = 1 / 3;

/** The rounds that end with it: those of locks whose clients take turns by themselves. */
const KINDS: readonly Kind[] = ['reentrant', 'fenced'];

export interface Turns {
  readonly violations: readonly Violation[];
  readonly commandCount: number;
}

/** The seed says how many clients there are, whether they share a process, how many callers each has, and how long a hold lasts. */
export async function playTurns(
  kind: Kind,
  seed: number,
  trace: (line: string) => void,
): Promise<Turns> {
  if (!KINDS.includes(kind)) return { violations: [], commandCount: 0 };
  const random = new Random(seed, `turns ${kind}`);
  const time = new VirtualTime();
  const machine = { wallAheadMs: 0 };
  const number = (): number => random.next();
  const server = new SimServer(0, time, machine, number, 0, (what) => {
    trace(`turns ${time.nowMs.toFixed(4)} server ${what}`);
  });
  const shared = random.chance(0.5) ? new SimProcess(time, machine) : undefined;
  const callers = random.pick([1, 2, 2, 8]);
  const holdMs = random.pick([0, 0, 2, 20]);
  const parties = Array.from({ length: random.whole(2, 4) }, (_, index) => {
    const process = shared ?? new SimProcess(time, machine);
    const link = new Link(time, server, random.fork(`link ${index}`));
    const own = random.fork(`client ${index}`);
    const library = libraryOf(link, process, () => own.next(), `t${index}`);
    const redis = { [LIBRARY]: () => library };
    const client = new Holdfast({ redis, clientId: `t${index}`, wait: Infinity });
    return { process, client, count: 0 };
  });
  const endsAt = time.nowMs + FOR_MS;
  let working = parties.length * callers;
  for (const party of parties) {
    const lock =
      kind === 'fenced' ? party.client.getFencedLock('turns') : party.client.getLock('turns');
    const work = async (): Promise<void> => {
      while (time.nowMs < endsAt)
        await lock.withLock(() => {
          party.count++;
          return holdMs === 0 ? party.process.nextTurn() : party.process.sleep(holdMs);
        });
      working--;
    };
    for (let caller = 0; caller < callers; caller++) void work();
  }
  await time.play(endsAt + SLACK_MS, () => working === 0);
  for (const { client } of parties) void client.close();
  await time.play(time.nowMs + SLACK_MS);
  const { commandCount } = server;
  const counts = parties.map(({ count }) => count);
  const even = counts.reduce((sum, count) => sum + count, 0) / counts.length;
  if (working === 0 && Math.min(...counts) > LEAST_SHARE * even)
    return { violations: [], commandCount };
  const where = shared ? 'one process' : 'several processes';
  const crowd = `clients of ${where}, ${callers} callers each, ${holdMs} ms a hold`;
  const message = `${crowd}: they got the lock ${counts.join(', ')} times; ${working} callers still wait`;
  return { violations: [violation('turns between clients', endsAt, message)], commandCount };
}
