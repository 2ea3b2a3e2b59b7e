// What went wrong since all was well. Each thing is told once, since a server that is down fails every attempt in the same words.

/** How many things are told in one outage at most. */
const MOST_SAID = 20;

export class Outage {
  readonly #said = new Set<string>();

  /** Whether a message was not told before in this outage. Numbers do not make it new: ports, milliseconds, how many leases. */
  isNews(message: string): boolean {
    const words = message.replace(/\d+(\.\d+)?/g, '#');
    if (this.#said.has(words) || this.#said.size >= MOST_SAID) return false;
    this.#said.add(words);
    return true;
  }

  end(): void {
    this.#said.clear();
  }
}
