// A server of a simulation: in memory, with a clock of its own. It may stand still, be down, forget, and get what is lost, doubled or late.
import { FORCE_SHA1S } from '../chaos/nemeses/commands.js';
import type * as Testing from '../../src/testing/server.js';
import { loaded } from './library.js';
import type { Pipe } from './network.js';
import { SimProcess, type Machine, type VirtualTime } from './time.js';

const { MemoryServer } = await loaded<typeof Testing>('testing/server');

type Peer = Parameters<Testing.MemoryServer['accept']>[0];
type Take = Testing.MemoryServer['take'];

/** Who asks besides all clients. */
const nobody = (): Peer => ({
  classic: new Set(),
  sharded: new Set(),
  lastWriteMs: -Infinity,
  backlog: undefined,
  message: () => undefined,
  hungUp: () => undefined,
});

export class SimServer extends MemoryServer {
  readonly index: number;
  readonly process: SimProcess;
  readonly machine: Machine;
  readonly #time: VirtualTime;
  /** The connection by which something has just arrived. */
  #via: Pipe | undefined;
  #isDown = false;
  /** How many commands it has run. */
  commandCount = 0;
  /** For how long a command may be under way that is doubled, or late, in milliseconds. */
  readonly #latestMs: number;
  readonly #trace: (what: string) => void;

  constructor(
    index: number,
    time: VirtualTime,
    machine: Machine,
    random: () => number,
    latestMs: number,
    trace: (what: string) => void,
  ) {
    const process = new SimProcess(time, machine);
    super(process.clock, { random });
    this.machine = machine;
    this.index = index;
    this.process = process;
    this.#time = time;
    this.#latestMs = latestMs;
    this.#trace = trace;
  }

  get isDown(): boolean {
    return this.#isDown;
  }

  /** Runs what has arrived, as soon as the server runs. */
  enter(run: () => void): void {
    this.process.enter(run);
  }

  receive(pipe: Pipe, deliver: () => void): void {
    this.#via = pipe;
    deliver();
    this.#via = undefined;
  }

  override accept(peer: Peer): boolean {
    const pipe = this.#via;
    if (pipe) {
      if (pipe.link.isRefusing) return false;
      pipe.peer = peer;
      const message = peer.message.bind(peer);
      peer.message = (channel, payload) => {
        const delays = pipe.link.treatMessage?.() ?? [0];
        for (const delayMs of delays)
          if (delayMs === 0) message(channel, payload);
          else
            this.#time.at(this.#time.nowMs + delayMs, () => {
              message(channel, payload);
            });
      };
    }
    return super.accept(peer);
  }

  override take(...[peer, command, args, answer]: Parameters<Take>): void {
    const pipe = this.#via;
    const treatment = pipe?.link.treat?.(command, args);
    this.#trace(
      `${this.index} ${command} ${args.slice(0, 1).join('').slice(0, 8)} ${args.slice(1).join(' ')} ${treatment ?? ''}`,
    );
    const run = (answered: typeof answer): void => {
      this.commandCount++;
      super.take(peer, command, args, answered);
    };
    if (!pipe || !treatment) {
      run(answer);
      return;
    }
    const isCut = pipe.link.random.chance(0.5);
    const goes = (): void => {
      if (isCut) pipe.cut();
      else pipe.silence();
    };
    switch (treatment) {
      case 'lose':
        goes();
        return;
      case 'lose reply':
        run(() => undefined);
        goes();
        return;
      case 'cut':
        run(answer);
        pipe.cut();
        return;
      case 'double':
        run(answer);
        this.#again(pipe, command, args);
        return;
      case 'late':
        this.#again(pipe, command, args);
        goes();
    }
  }

  /** Asks past all clients, and past everything that goes wrong. */
  ask(command: string, ...args: string[]): unknown {
    const peer = nobody();
    let answer: unknown;
    if (!super.accept(peer)) return undefined;
    super.take(peer, command, args, (reply) => {
      answer = reply;
    });
    this.leave(peer);
    return answer;
  }

  override down(): void {
    this.#isDown = true;
    super.down();
  }

  override up(): void {
    this.#isDown = false;
    super.up();
  }

  /** A copy comes later, over another connection. */
  #again(pipe: Pipe, command: string, args: readonly string[]): void {
    if (!mayRunTwice(command, args)) return;
    const inMs = pipe.link.random.between(0, this.#latestMs);
    this.#time.at(this.#time.nowMs + inMs, () => {
      this.enter(() => {
        this.#trace(`${this.index} again ${command} ${args.join(' ').slice(0, 300)}`);
        this.ask(command, ...args);
      });
    });
  }
}

/** A script may run when its connection is gone, but forceUnlock() frees whoever holds the lock when it runs. */
function mayRunTwice(command: string, [script = '']: readonly string[]): boolean {
  return command === 'evalsha' && !FORCE_SHA1S.includes(script);
}
