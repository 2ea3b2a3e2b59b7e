// Time that passes only when nothing else can happen: random interleavings that can be repeated exactly.

export class VirtualTime {
  readonly #due: { at: number; resolve: () => void }[] = [];
  #now = 0;

  /** Resolves after so many ticks; those due at the same tick go in the order in which they were asked for. */
  pass(ticks: number): Promise<void> {
    if (ticks === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const at = this.#now + ticks;
      const index = this.#due.findIndex((other) => other.at > at);
      this.#due.splice(index === -1 ? this.#due.length : index, 0, { at, resolve });
    });
  }

  /** Lets time pass until the promise settles; throws when it never will, since nothing is left to happen. */
  async until<T>(promise: Promise<T>): Promise<T> {
    const settled = promise.then(Boolean, Boolean).then(() => true);
    for (;;) {
      const turn = new Promise<boolean>((resolve) => setImmediate(resolve, false));
      if (await Promise.race([turn, settled])) return await promise;
      const next = this.#due.shift();
      if (!next) throw new Error(`deadlock: nothing is left to happen at tick ${this.#now}`);
      this.#now = next.at;
      next.resolve();
    }
  }
}
