// What went wrong since all was well: each thing is said once, since whoever is down fails every attempt in the same words.

/** Who has so much to say says nothing new any more. */
const MOST_SAID = 20;

export class Outage {
  readonly #said = new Set<string>();

  /** Whether it was not said before. Numbers do not make it new: ports, milliseconds, how many leases. */
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
