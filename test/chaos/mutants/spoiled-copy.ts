// A copy of the library with a mutant's edits, from which workers can import.
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Edit, Mutant } from './mutant.js';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const SCRIPTS = 'src/redis/scripts.generated.ts';

export class SpoiledCopy implements Disposable {
  /** The files that were spoiled, as they are called in the library, and what stands there now. */
  readonly changed = new Map<string, string>();
  readonly #folder: string;

  /** @throws Error when an edit does not fit the library any more */
  constructor({ name, edits }: Mutant) {
    this.#folder = mkdtempSync(join(tmpdir(), `holdfast-mutant-${name.replaceAll(/\W+/g, '-')}-`));
    for (const part of ['lua', 'src', 'scripts', 'package.json'])
      cpSync(join(ROOT, part), join(this.#folder, part), { recursive: true });
    symlinkSync(join(ROOT, 'node_modules'), join(this.#folder, 'node_modules'));
    for (const edit of edits) this.#apply(edit);
    const { status, stderr } = spawnSync(process.execPath, ['scripts/embed-lua.mjs'], {
      cwd: this.#folder,
    });
    if (status !== 0) throw new Error(String(stderr));
  }

  /** What to import. */
  get library(): string {
    return join(this.#folder, 'src/index.ts');
  }

  [Symbol.dispose](): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #apply({ in: part, from, to }: Edit): void {
    const files = readdirSync(join(this.#folder, part), { recursive: true, encoding: 'utf8' })
      .filter((file) => /\.(ts|lua)$/.test(file))
      .map((file) => join(this.#folder, part, file))
      .filter((path) => !path.endsWith(SCRIPTS));
    const found = files.flatMap((path) => {
      const parts = readFileSync(path, 'utf8').split(from);
      return parts.slice(1).map(() => ({ path, spoiled: parts.join(to) }));
    });
    if (found.length !== 1)
      throw new Error(`${part}/ has this ${found.length} times, and not once: ${from}`);
    for (const { path, spoiled } of found) {
      writeFileSync(path, spoiled);
      this.changed.set(relative(this.#folder, path), spoiled);
    }
  }
}
