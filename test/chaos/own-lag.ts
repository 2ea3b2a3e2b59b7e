// When the campaign's own process stood still: then its proxies did, too, and nothing that was late is anybody's fault.
import { machineMs } from '../support/time.js';

const LOOK_EVERY_MS = 50;
const WORTH_NOTING_MS = 50;

export class OwnLag implements Disposable {
  readonly noted: { readonly at: number; readonly ms: number }[] = [];
  #timer: NodeJS.Timeout;

  constructor() {
    this.#timer = this.#look();
  }

  /** For how long it stood still since then, in milliseconds. */
  since(at: number): number {
    return this.noted.filter((lag) => lag.at >= at).reduce((sum, { ms }) => sum + ms, 0);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }

  #look(): NodeJS.Timeout {
    const since = machineMs();
    return setTimeout(() => {
      const ms = machineMs() - since - LOOK_EVERY_MS;
      if (ms > WORTH_NOTING_MS) this.noted.push({ at: machineMs(), ms });
      this.#timer = this.#look();
    }, LOOK_EVERY_MS);
  }
}
