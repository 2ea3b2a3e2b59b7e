// Texts of exported holds on their way to another process: one caller posts a text, and callers of any process take it.
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Locked } from './party.js';

export interface Parcel {
  readonly text: string;
  /** What its hold locks. */
  readonly locked: Pick<Locked, 'names' | 'half'>;
  readonly permits?: number | undefined;
}

export interface Post {
  put(parcel: Parcel): void;
  /** undefined: there is none at present. */
  take(): Parcel | undefined;
}

/** A folder that all processes share. */
export class PostFolder implements Post {
  readonly #folder: string;
  readonly #sender: string;
  #count = 0;

  /** `sender`: no other process has this name. */
  constructor(folder: string, sender: string) {
    mkdirSync(folder, { recursive: true });
    this.#folder = folder;
    this.#sender = sender;
  }

  put(parcel: Parcel): void {
    const path = join(this.#folder, `${this.#sender}${this.#count++}`);
    // Whoever looks for parcels sees whole ones.
    writeFileSync(`${path}.part`, JSON.stringify(parcel));
    renameSync(`${path}.part`, `${path}.json`);
  }

  take(): Parcel | undefined {
    for (const name of readdirSync(this.#folder).filter((name) => name.endsWith('.json'))) {
      const path = join(this.#folder, name);
      const mine = `${path}.${this.#sender}`;
      try {
        renameSync(path, mine);
      } catch {
        continue; // another process was faster
      }
      const parcel = JSON.parse(readFileSync(mine, 'utf8')) as Parcel;
      rmSync(mine);
      return parcel;
    }
    return undefined;
  }
}
