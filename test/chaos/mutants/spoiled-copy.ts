// A copy of the library with a mutant's edits, which workers can import, and whether TypeScript accepts it.
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
import ts from 'typescript';
import type { Edit, Mutant } from './mutants.js';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const SCRIPTS = 'src/redis/scripts.generated.ts';

export class SpoiledCopy implements Disposable {
  /** The changed files, by their names in the library, with their new contents. */
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

// Whether TypeScript accepts a mutant: one that only crashes breaks no rule, and proves nothing.

/** Checks one mutant after the other; the unchanged files are read once. */
export class TypeErrors {
  readonly #options: ts.CompilerOptions;
  readonly #host: ts.CompilerHost;
  readonly #read = new Map<string, ts.SourceFile | undefined>();
  #last: ts.Program | undefined;

  constructor() {
    const path = join(ROOT, 'tsconfig.json');
    const { config } = ts.readConfigFile(path, (file) => ts.sys.readFile(file)) as {
      config: object;
    };
    const { options } = ts.parseJsonConfigFileContent({ ...config, files: [] }, ts.sys, ROOT);
    delete options.tsBuildInfoFile;
    this.#options = { ...options, incremental: false };
    this.#host = ts.createCompilerHost(this.#options);
  }

  /** Of the changed files: their names in the library, and their new contents. */
  in(changed: ReadonlyMap<string, string>): string[] {
    const texts = new Map([...changed].map(([file, text]) => [join(ROOT, file), text]));
    const names = [...texts.keys()].filter((file) => file.endsWith('.ts'));
    if (names.length === 0) return [];
    const host: ts.CompilerHost = {
      ...this.#host,
      getSourceFile: (file, language) => {
        const text = texts.get(file);
        if (text !== undefined) return ts.createSourceFile(file, text, language);
        if (!this.#read.has(file)) this.#read.set(file, this.#host.getSourceFile(file, language));
        return this.#read.get(file);
      },
    };
    const program = ts.createProgram(names, this.#options, host, this.#last);
    this.#last = program;
    return names.flatMap((name) => {
      const file = program.getSourceFile(name);
      return [
        ...program.getSyntacticDiagnostics(file),
        ...program.getSemanticDiagnostics(file),
      ].map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, ' '));
    });
  }
}
