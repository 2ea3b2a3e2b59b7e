// Says what is going on while nothing is printed: one line that is written over, on a terminal only.

export class Progress {
  #title = '';
  readonly #startMs = performance.now();

  /** What is measured from now on. */
  begin(title: string): void {
    this.#title = title;
    this.step('');
  }

  step(what: string): void {
    if (!process.stderr.isTTY) return;
    const seconds = Math.round((performance.now() - this.#startMs) / 1_000);
    const line = `${seconds} s · ${this.#title} · ${what}`;
    process.stderr.write(`\r\x1b[K${line.slice(0, (process.stderr.columns || 80) - 1)}`);
  }

  /** Makes room for what is printed. */
  clear(): void {
    if (process.stderr.isTTY) process.stderr.write('\r\x1b[K');
  }
}
