// npx holdfast as a process, as an operator calls it.
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterEach, expect, inject } from 'vitest';
import { runnable } from './compiled.js';

/** How npx holdfast is called, without its arguments. */
export const PROGRAM: readonly string[] = (() => {
  const { imports, url } = runnable(new URL('../../src/cli/main.ts', import.meta.url));
  return [process.execPath, ...imports, fileURLToPath(url)];
})();

const running = new Set<ChildProcess>();

afterEach(() => {
  for (const child of running) child.kill('SIGKILL');
});

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly out: string;
  readonly err: string;
}

export class Command {
  out = '';
  err = '';
  readonly child: ChildProcess;
  readonly #exit: Promise<unknown[]>;

  /** `stdout`: a file instead of `out`. */
  constructor(
    args: readonly string[],
    env: Record<string, string> = {},
    { stdout = 'pipe' }: { stdout?: number | 'pipe' } = {},
  ) {
    const [node = '', ...program] = PROGRAM;
    this.child = spawn(node, [...program, ...args], {
      env: { ...process.env, HOLDFAST_REDIS_URL: inject('redisUrl'), ...env },
      stdio: ['ignore', stdout, 'pipe'],
    });
    running.add(this.child);
    this.child.stdout?.on('data', (text: Buffer) => (this.out += text.toString()));
    this.child.stderr?.on('data', (text: Buffer) => (this.err += text.toString()));
    this.#exit = once(this.child, 'close');
  }

  async said(text: string | RegExp): Promise<void> {
    await expect.poll(() => this.out, { timeout: 20_000 }).toMatch(text);
  }

  async end(): Promise<Ended> {
    const [code, signal] = (await this.#exit) as [number | null, NodeJS.Signals | null];
    running.delete(this.child);
    return { code, signal, out: this.out, err: this.err };
  }
}

/** One line on stderr, and nothing on stdout. */
export function expectOneLine({ out, err }: Ended, ...parts: string[]): void {
  expect(out).toBe('');
  expect(err).toMatch(/^holdfast: .*\n$/);
  for (const part of parts) expect(err).toContain(part);
}

/** What `doctor --json` has found, by check. */
export function checksIn(out: string): Record<string, { state: string; found: string }> {
  return Object.fromEntries(
    out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { check: string; state: string; found: string })
      .map(({ check, ...more }) => [check, more]),
  );
}

/** Starts `npx holdfast` with these arguments. */
export const start = (...args: string[]): Command => new Command(args);

/** What `npx holdfast` with these arguments has said when it ended. */
export const holdfast = (...args: string[]): Promise<Ended> => start(...args).end();
