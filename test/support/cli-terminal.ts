// npx holdfast on a terminal: a pseudo-terminal of script(1), and xterm, which shows what is written to it.
import { execFileSync, spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import xterm from '@xterm/headless';
import { afterEach, expect, inject } from 'vitest';
import { PROGRAM } from './cli-command.js';

/** Why there can be none here, or undefined. */
export const terminalUnavailable: string | undefined =
  process.platform === 'linux' && spawnSync('script', ['--version']).status === 0
    ? undefined
    : 'needs script of util-linux on the PATH';

const open = new Set<CliTerminal>();

afterEach(() => {
  for (const terminal of open) terminal.kill();
});

/** With SIGUSR2, the program throws an error that nobody catches. */
const THROWS = `data:text/javascript,process.on('SIGUSR2',()=>{throw%20new%20Error('boom')})`;

// The terminal shows "before" when the program begins.
const BEGIN = 'stty cols "$1" rows "$2"; tty >tty; echo $$ >pid; echo before; shift 2; exec "$@"';

export class CliTerminal {
  readonly #xterm: xterm.Terminal;
  readonly #child: ChildProcess;
  readonly #exit: Promise<unknown[]>;
  readonly #folder = mkdtempSync(join(tmpdir(), 'holdfast-tty-'));
  #written = '';

  constructor(args: readonly string[], cols: number, rows: number) {
    this.#xterm = new xterm.Terminal({ cols, rows, allowProposedApi: true });
    const words = ['sh', '-c', BEGIN, 'sh', String(cols), String(rows), ...PROGRAM, ...args];
    const line = words.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ');
    this.#child = spawn('script', ['-qefc', line, '/dev/null'], {
      cwd: this.#folder,
      env: {
        ...process.env,
        HOLDFAST_REDIS_URL: inject('redisUrl'),
        NODE_OPTIONS: `--import=${THROWS}`,
        TERM: 'xterm-256color',
        SHELL: '/bin/sh',
      },
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    this.#child.stdout?.on('data', (text: Buffer) => {
      this.#written += text.toString();
      this.#xterm.write(text);
    });
    this.#exit = once(this.#child, 'close');
    open.add(this);
  }

  get isAlternate(): boolean {
    return this.#xterm.buffer.active.type === 'alternate';
  }

  /** Whether the cursor is there, and lines wrap. */
  get isUsable(): boolean {
    const last = (on: string, off: string): boolean =>
      this.#written.lastIndexOf(on) > this.#written.lastIndexOf(off);
    return last('\u001b[?25h', '\u001b[?25l') && this.#xterm.modes.wraparoundMode;
  }

  rows(): string[] {
    const { active } = this.#xterm.buffer;
    return Array.from({ length: this.#xterm.rows }, (_, index) =>
      active.getLine(active.baseY + index)!.translateToString(true, 0, this.#xterm.cols),
    );
  }

  async shows(text: string): Promise<void> {
    await expect.poll(() => this.rows().join('\n'), { timeout: 20_000 }).toContain(text);
  }

  press(key: string): void {
    this.#child.stdin?.write(key);
  }

  signal(signal: NodeJS.Signals): void {
    process.kill(Number(this.#noted('pid')), signal);
  }

  resize(cols: number, rows: number): void {
    this.#xterm.resize(cols, rows);
    const size = ['cols', String(cols), 'rows', String(rows)];
    execFileSync('stty', ['-F', this.#noted('tty'), ...size]);
  }

  /** The exit code of the program. */
  async end(): Promise<number | null> {
    const [code] = (await this.#exit) as [number | null];
    await new Promise<void>((resolve) => {
      this.#xterm.write('', resolve);
    });
    open.delete(this);
    rmSync(this.#folder, { recursive: true });
    return code;
  }

  kill(): void {
    open.delete(this);
    this.#child.kill('SIGKILL');
  }

  #noted(what: string): string {
    return readFileSync(join(this.#folder, what), 'utf8').trim();
  }
}
