// The wall clock of a server that can be stepped: a small library, built here, that is preloaded into it.
import { spawnSync } from 'node:child_process';
import { open, writeFile } from 'node:fs/promises';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export class ServerClock {
  readonly env: Readonly<Record<string, string>>;
  readonly #file: string;

  /** undefined where the library cannot be built: it takes a C compiler, and Linux. */
  static async create(folder: string): Promise<ServerClock | undefined> {
    const library = (built ??= build());
    if (library.path === undefined) return undefined;
    const file = join(folder, 'clock-ahead');
    await writeFile(file, Buffer.alloc(8));
    return new ServerClock(library.path, file);
  }

  /** Why servers' clocks cannot be stepped here; undefined when they can. */
  static get unavailable(): string | undefined {
    return (built ??= build()).trouble;
  }

  private constructor(library: string, file: string) {
    this.#file = file;
    this.env = { LD_PRELOAD: library, HOLDFAST_CLOCK_AHEAD: file };
  }

  /** From now on it is so much ahead of the true time. */
  async step(ms: number): Promise<void> {
    const ahead = Buffer.alloc(8);
    ahead.writeBigInt64LE(BigInt(ms));
    await using file = await open(this.#file, 'r+');
    await file.write(ahead, 0, 8, 0); // in place: the server has mapped it
  }
}

interface Built {
  readonly path?: string;
  readonly trouble?: string;
}

let built: Built | undefined;

function build(): Built {
  if (process.platform !== 'linux') return { trouble: 'LD_PRELOAD of a clock takes Linux' };
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-clock-'));
  process.once('exit', () => {
    rmSync(folder, { recursive: true, force: true });
  });
  const path = join(folder, 'stepped-clock.so');
  const source = fileURLToPath(new URL('stepped-clock.c', import.meta.url));
  const { status, stderr, error } = spawnSync('cc', [
    '-shared',
    '-fPIC',
    '-O2',
    '-o',
    path,
    source,
  ]);
  if (status === 0) return { path };
  return { trouble: `it takes a C compiler: ${error?.message ?? String(stderr).split('\n')[0]!}` };
}
