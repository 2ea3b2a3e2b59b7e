// The wall clock of a server that can be stepped, or stopped: a small library, built here, that is preloaded into it.
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
    const file = join(folder, 'clock');
    await writeFile(file, Buffer.alloc(16));
    return new ServerClock(library.path, file);
  }

  /** Why servers' clocks cannot be stepped here; undefined when they can. */
  static get unavailable(): string | undefined {
    return (built ??= build()).trouble;
  }

  private constructor(library: string, file: string) {
    this.#file = file;
    this.env = { LD_PRELOAD: library, HOLDFAST_CLOCK: file };
  }

  /** From now on it is so much ahead of the true time. */
  step(ms: number): Promise<void> {
    return this.#write(ms, 0);
  }

  /** From now on it stands there, and the monotonic one as well; in microseconds since 1970. Called before the server starts for the first time. */
  stand(atUs: number): Promise<void> {
    return this.#write(atUs, 8);
  }

  async #write(number: number, position: number): Promise<void> {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(BigInt(number));
    await using file = await open(this.#file, 'r+');
    await file.write(bytes, 0, 8, position); // in place: the server has mapped it
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
