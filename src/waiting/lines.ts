// The lines of one client, one for each lock that somebody of it waits for.

export class Lines<Line> {
  readonly #lines = new Map<string, Line>();

  /** The line for a lock: made for the first who waits, and forgotten with the last. */
  of(lock: string, create: (onEmpty: () => void) => Line): Line {
    let line = this.#lines.get(lock);
    if (!line) this.#lines.set(lock, (line = create(() => this.#lines.delete(lock))));
    return line;
  }

  /** The line for a lock, if anybody waits for it. */
  known(lock: string): Line | undefined {
    return this.#lines.get(lock);
  }
}
