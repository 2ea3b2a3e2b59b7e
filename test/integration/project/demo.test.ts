// The demo: what it shows of fencing tokens, also with node-redis alone, and of readers; and what it does when its terminal closes, when
// the viewer interrupts it, and when the given Redis is unusable.
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { Redis } from 'ioredis';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { describe, expect, it } from 'vitest';
import { startRedis } from '../../support/redis-server.js';

const DEMO = ['--import', 'tsx', 'demo/main.ts'];
/** Servers in containers end with their containers, not with a terminal. */
const startsProcesses = (process.env['HOLDFAST_TEST_BACKEND'] ?? 'process') === 'process';
const hasTerminals = spawnSync('script', ['--version']).status === 0;

describe('the demo', () => {
  it.skipIf(!hasTerminals || !startsProcesses)(
    'leaves nothing running when its terminal is closed (skipped without `script` to make terminals, and on Docker)',
    async () => {
      const terminal = openTerminal(`${process.execPath} scripts/demo.mjs --redlock`);
      const seen: string[] = [];
      terminal.stdout!.on('data', (chunk: Buffer) => seen.push(chunk.toString()));
      await expect
        .poll(() => seen.join(''), { timeout: 60_000 })
        .toMatch(/of 5 masters up|5 masters are up/);
      const [session] = childrenOf(terminal.pid!);
      const servers = processesOf(session!).filter(({ command }) =>
        command.includes(process.env['HOLDFAST_REDIS_SERVER'] ?? 'redis-server'),
      );
      expect(servers.length).toBeGreaterThanOrEqual(5);
      terminal.kill('SIGKILL');
      await once(terminal, 'exit');
      await expect.poll(() => processesOf(session!), { timeout: 10_000 }).toEqual([]);
    },
    90_000,
  );

  it('shows that a late write wins without tokens and is refused with them, and leaves nothing behind', async () => {
    await using redis = await startRedis();
    const { demo, seen } = play(redis.url, '--fenced');
    const workers = await workersOf(demo);
    expect(await once(demo, 'close')).toEqual([0, null]);
    expect(seen()).toMatch(/the late write wins[^]*2 of 2[^]*its \d{16}: refused/);
    expect(seen()).toMatch(/ the late write +accepted +refused\n +cents lost +[1-9][\d,]* +0\n/);
    expect(await keysOn(redis.url)).toEqual([]);
    expect(workers.filter(isRunning)).toEqual([]);
  }, 90_000);

  it('shows the same with node-redis and without ioredis', async () => {
    await using project = await projectWith(['redis', 'tsx', 'eventemitter3', 'p-limit']);
    await using redis = await startRedis();
    const { demo, seen } = play(redis.url, '--fenced', project.path);
    expect(await once(demo, 'close')).toEqual([0, null]);
    expect(seen()).toMatch(/ the late write +accepted +refused\n +cents lost +[1-9][\d,]* +0\n/);
    expect(await keysOn(redis.url)).toEqual([]);
  }, 90_000);

  it('shows that readers overlap and get right sums while others write, past two kills, and leaves nothing behind', async () => {
    await using redis = await startRedis();
    const { demo, seen } = play(redis.url, '--readers');
    const workers = await workersOf(demo, 6);
    expect(await once(demo, 'close')).toEqual([0, null]);
    expect(seen()).toMatch(/ reads: SIGKILL[^]* writes \d[^]* has not written yet: SIGKILL/);
    expect(seen()).toMatch(/\n +wrong sums +[1-9]\d* +0\n/);
    expect(seen()).toMatch(/\n +most readers at a time +- +[2-4]\n/);
    expect(seen()).toMatch(/\n +total of all accounts +[\d,.]+ +4,000\.00\n/);
    expect(await keysOn(redis.url)).toEqual([]);
    expect(workers.filter(isRunning)).toEqual([]);
  }, 120_000);

  it('leaves nothing behind when it is interrupted while a holder is paused', async () => {
    await using redis = await startRedis();
    const { demo, seen } = play(redis.url, '--fenced');
    const workers = await workersOf(demo);
    await expect.poll(seen, { timeout: 60_000 }).toContain('SIGSTOP');
    demo.kill('SIGTERM');
    expect(await once(demo, 'close')).toEqual([130, null]);
    expect(workers.filter(isRunning)).toEqual([]);
    // The locks of a killed process last until their leases end.
    await expect.poll(() => keysOn(redis.url), { timeout: 10_000 }).toEqual([]);
  }, 90_000);

  it('reports in one line that the given Redis does not answer', async () => {
    const silent = createServer().listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const { port } = silent.address() as { port: number };
    try {
      expect(await failureOf(`redis://127.0.0.1:${port}`)).toMatch(
        /^the demo failed: the Redis at redis:\/\/127\.0\.0\.1:\d+, which HOLDFAST_REDIS_URL names, cannot be used: [^\n]+\n$/,
      );
    } finally {
      silent.close();
    }
  });

  it('reports in one line that the given Redis wants a password, and does not print the one it was given', async () => {
    await using redis = await startRedis({ args: ['--requirepass', 'right'] });
    const failure = await failureOf(redis.url.replace('//', '//:wrong-secret@'));
    expect(failure).toMatch(
      /^the demo failed: [^\n]* cannot be used: it wants another user or password [^\n]+\n$/,
    );
    expect(failure).not.toContain('wrong-secret');
  });
});

/** The demo's output on stderr, given a Redis that it cannot use. */
async function failureOf(url: string): Promise<string> {
  const env = { ...process.env, HOLDFAST_REDIS_URL: url, FORCE_COLOR: '0' };
  const demo = spawn(process.execPath, DEMO, { env, stdio: ['ignore', 'ignore', 'pipe'] });
  const printed: string[] = [];
  demo.stderr.on('data', (chunk: Buffer) => printed.push(chunk.toString()));
  expect(await once(demo, 'close')).toEqual([1, null]);
  return printed.join('');
}

/** The demo in a folder of its own, where only these packages are installed. */
async function projectWith(
  packages: readonly string[],
): Promise<AsyncDisposable & { path: string }> {
  const path = await mkdtemp(join(tmpdir(), 'holdfast-demo-'));
  for (const folder of ['src', 'demo', 'test/support'])
    await cp(folder, join(path, folder), { recursive: true });
  await writeFile(join(path, 'package.json'), '{ "type": "module" }');
  await mkdir(join(path, 'node_modules'));
  for (const name of packages)
    await symlink(resolve('node_modules', name), join(path, 'node_modules', name));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true }) };
}

/** The demo's output on stdout, played on this Redis, and its process. */
function play(
  url: string,
  show: string,
  cwd = process.cwd(),
): { demo: ChildProcess; seen: () => string } {
  const env = { ...process.env, HOLDFAST_REDIS_URL: url, FORCE_COLOR: '0' };
  const demo = spawn(process.execPath, [...DEMO, show], {
    cwd,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const printed: string[] = [];
  demo.stdout.on('data', (chunk: Buffer) => printed.push(chunk.toString()));
  return { demo, seen: () => printed.join('') };
}

/** The process ids of its workers, once it has started them. */
async function workersOf({ pid }: ChildProcess, count = 4): Promise<number[]> {
  const workers = (): number[] =>
    processes()
      .filter(({ parent, command }) => parent === pid && command.includes('demo/worker.ts'))
      .map((worker) => worker.pid);
  await expect.poll(() => workers().length, { timeout: 60_000 }).toBe(count);
  return workers();
}

function isRunning(pid: number): boolean {
  return processes().some((process) => process.pid === pid);
}

async function keysOn(url: string): Promise<string[]> {
  const redis = new Redis(url);
  const keys = await redis.keys('*');
  redis.disconnect();
  return keys;
}

/** A command on a terminal of its own; killing this closes the terminal under it. */
function openTerminal(command: string): ChildProcess {
  const env = { ...process.env };
  delete env['HOLDFAST_REDIS_URL'];
  return spawn('script', ['-qfc', command, '/dev/null'], {
    env,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
}

interface Process {
  readonly pid: number;
  readonly parent: number;
  readonly session: number;
  readonly command: string;
}

function childrenOf(pid: number): number[] {
  return processes()
    .filter(({ parent }) => parent === pid)
    .map(({ session }) => session);
}

function processesOf(session: number): Process[] {
  return processes().filter((process) => process.session === session);
}

function processes(): Process[] {
  const { stdout } = spawnSync('ps', ['-eo', 'pid=,ppid=,sid=,args='], { encoding: 'utf8' });
  return stdout
    .trim()
    .split('\n')
    .map((line) => {
      const [pid, parent, session, ...command] = line.trim().split(/\s+/);
      return {
        pid: Number(pid),
        parent: Number(parent),
        session: Number(session),
        command: command.join(' '),
      };
    });
}
