// Reads what the workers write, while they write it.
import { closeSync, fstatSync, openSync, readdirSync, readSync } from 'node:fs';
import { join } from 'node:path';
import type { Entry } from '../worker/journal.js';
import type { History } from './history.js';

interface Tail {
  readonly file: number;
  readonly process: string;
  offset: number;
  /** The beginning of a line that is not complete yet. */
  rest: string;
}

export class Journals implements Disposable {
  readonly #folder: string;
  readonly #history: History;
  readonly #tails = new Map<string, Tail>();

  constructor(folder: string, history: History) {
    this.#folder = folder;
    this.#history = history;
  }

  /** Takes over what has been written since the last time; returns how much of that callers did. */
  read(): number {
    let count = 0;
    for (const name of readdirSync(this.#folder).sort()) {
      const tail = this.#tails.get(name) ?? this.#open(name);
      for (const line of this.#lines(tail)) {
        const entry = JSON.parse(line) as Entry;
        this.#history.take(entry, tail.process);
        if ('id' in entry) count++;
      }
    }
    return count;
  }

  [Symbol.dispose](): void {
    for (const { file } of this.#tails.values()) closeSync(file);
  }

  #open(name: string): Tail {
    const process = name.replace(/jsonl$/, '');
    const tail = { file: openSync(join(this.#folder, name), 'r'), process, offset: 0, rest: '' };
    this.#tails.set(name, tail);
    return tail;
  }

  #lines(tail: Tail): string[] {
    const bytes = Buffer.alloc(fstatSync(tail.file).size - tail.offset);
    const length = readSync(tail.file, bytes, 0, bytes.length, tail.offset);
    tail.offset += length;
    // Whole characters: the workers write whole lines, and a killed one leaves at most an incomplete last one.
    const lines = (tail.rest + bytes.toString('utf8', 0, length)).split('\n');
    tail.rest = lines.pop()!;
    return lines;
  }
}
