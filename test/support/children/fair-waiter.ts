// A process whose calls wait in the line of a fair lock, and note from when to when each believed that it held it.
//
// Environment: HOLDFAST_TEST_REDIS_URL, and HOLDFAST_TEST_OPTIONS (JSON, further options of the client).
// At once          ->  ready {clientId}
// join {name, label, holdMs?, wait?, lease?}
//                  ->  acquired <label> {ownerId, atMs}; and after holdMs, or when told to release it:
//                      ended <label> {label, ownerId, fromMs?, untilMs?, code?}; or, without the former, gave up: ended <label> {code}
// release {label}
// abort {label}
// block {ms}       ->  blocked, after the event loop stood still that long
// close            ->  the process ends by itself
// Times are those of machineMs().
import { Holdfast, type Hold, type HoldfastOptions } from '../../../src/index.js';
import { onMessage, stopListening, tell } from '../child-messages.js';
import { eventually, machineMs } from '../time.js';

const holdfast = new Holdfast({
  redis: process.env['HOLDFAST_TEST_REDIS_URL'] ?? '',
  commandTimeout: 10_000, // for a busy machine
  wait: Infinity,
  ...(JSON.parse(process.env['HOLDFAST_TEST_OPTIONS'] ?? '{}') as Partial<HoldfastOptions>),
});

interface Message {
  readonly type: string;
  readonly name: string;
  readonly label: string;
  readonly holdMs?: number;
  readonly wait?: number;
  readonly lease?: number;
  readonly ms: number;
}

interface Call {
  readonly aborter: AbortController;
  release(): void;
}

const calls = new Map<string, Call>();

onMessage(async (message) => {
  const given = message as unknown as Message;
  switch (given.type) {
    case 'join':
      await join(given);
      return;
    case 'release':
      calls.get(given.label)?.release();
      return;
    case 'abort':
      calls.get(given.label)?.aborter.abort();
      return;
    case 'block':
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, given.ms);
      tell('blocked');
      return;
    case 'close':
      await holdfast.close();
      stopListening();
  }
});
await eventually(() => holdfast.getLock('connected').isLocked()); // a busy machine takes its time
tell('ready', { clientId: holdfast.clientId });

async function join({ name, label, holdMs, wait, lease }: Message): Promise<void> {
  const aborter = new AbortController();
  const released = new Promise<void>((release) => calls.set(label, { aborter, release }));
  const { signal } = aborter;
  let hold: Hold;
  try {
    hold = await holdfast.getFairLock(name).acquire({ wait, lease, signal });
  } catch (error) {
    tell(`ended ${label}`, { code: codeOf(error) });
    return;
  }
  const belief = new Belief(hold);
  tell(`acquired ${label}`, { ownerId: hold.ownerId, atMs: machineMs() });
  if (holdMs !== undefined) setTimeout(() => calls.get(label)?.release(), holdMs);
  await released;
  belief.end();
  const code = await hold.release().then(() => undefined, codeOf);
  const { fromMs, untilMs } = belief;
  tell(`ended ${label}`, { label, ownerId: hold.ownerId, fromMs, untilMs, code });
}

/** Looks again and again; the time is taken before the look, so that a stopped process does not seem to believe too late. */
class Belief {
  fromMs: number | undefined;
  untilMs: number | undefined;
  readonly #hold: Hold;
  readonly #looking = setInterval(() => {
    this.#look();
  }, 2);

  constructor(hold: Hold) {
    this.#hold = hold;
    this.#look();
  }

  end(): void {
    clearInterval(this.#looking);
    this.#look();
  }

  #look(): void {
    const atMs = machineMs();
    if (this.#hold.remaining() <= 0 && this.#hold.signal.aborted) return;
    this.fromMs ??= atMs;
    this.untilMs = atMs;
  }
}

function codeOf(error: unknown): string {
  return (error as { code?: string }).code ?? String(error);
}
