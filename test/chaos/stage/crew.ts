// A worker process over its incarnations: killed, it comes back as a new one.
import { startChild, type Child } from '../../support/child.js';
import type { ChildMessage } from '../../support/child-messages.js';
import { machineMs } from '../../support/time.js';
import type { WorkOrder } from '../worker/work-order.js';

export class CrewMember implements AsyncDisposable {
  readonly index: number;
  /** Clients whose process was killed: nobody can clean up after them. */
  readonly killed: string[] = [];
  readonly #orderFor: (incarnation: number) => WorkOrder;
  readonly #library: string | undefined;
  #child: Child;
  #incarnation = 0;
  #isAlive = true;

  constructor(
    index: number,
    library: string | undefined,
    orderFor: (incarnation: number) => WorkOrder,
  ) {
    this.index = index;
    this.#library = library;
    this.#orderFor = orderFor;
    this.#child = this.#spawn();
  }

  get isAlive(): boolean {
    return this.#isAlive;
  }

  get output(): string {
    return this.#child.output;
  }

  async kill(): Promise<void> {
    this.#isAlive = false;
    await this.#child.kill();
    this.killed.push(`w${this.index}.${this.#incarnation}.`);
  }

  async start(): Promise<void> {
    this.#incarnation++;
    this.#child = this.#spawn();
    this.#isAlive = true;
    await this.ready();
  }

  /** A machine that has much to do may take minutes to start a process. */
  async ready(): Promise<void> {
    await this.next('ready', 300_000);
  }

  pause(): void {
    this.#child.pause();
  }

  resume(): void {
    this.#child.resume();
  }

  send(message: ChildMessage): void {
    if (this.#isAlive) this.#child.send(message);
  }

  async next(type: string, timeoutMs = 60_000): Promise<ChildMessage> {
    return await this.#child.next(type, timeoutMs);
  }

  /** Resolves to when it was seen to have ended, and how; undefined: it has not within this time. */
  async exitedWithin(ms: number): Promise<{ at: number; code: number | null } | undefined> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<undefined>((resolve) => {
      timer = setTimeout(resolve, ms, undefined);
    });
    const exited = this.#child.exited().then(({ code }) => ({ at: machineMs(), code }));
    const end = await Promise.race([exited, late]);
    clearTimeout(timer);
    return end;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#child.kill();
  }

  #spawn(): Child {
    const order = this.#orderFor(this.#incarnation);
    return startChild(new URL('../worker/worker.ts', import.meta.url), {
      HOLDFAST_CHAOS_ORDER: JSON.stringify(order),
      ...(this.#library === undefined ? {} : { HOLDFAST_CHAOS_LIBRARY: this.#library }),
      NODE_NO_WARNINGS: '1', // they are written to the journal
      // Those on ioredis share locks with those on node-redis.
      HOLDFAST_LIBRARY: this.index % 2 === 0 ? 'ioredis@6' : 'redis@6',
    });
  }
}
