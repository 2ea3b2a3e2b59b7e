// The packed package: it installs into an empty project, works there by import and by require(), and type-checks.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { OptionError } from '../../../src/index.js';
import { uniqueName } from '../../support/unique-name.js';

const run = promisify(execFile);

/** If it is there, as a dependency of a dependency. */
const ESBUILD = resolve('node_modules/esbuild/bin/esbuild');

let project: string;

// One project for all tests: its installation takes the time.
beforeAll(async () => {
  project = await mkdtemp(join(tmpdir(), 'holdfast-package-'));
  const { stdout } = await run('npm', ['pack', '--silent', '--pack-destination', project]);
  const packed = stdout.trim().split('\n').at(-1)!;
  const ioredis = process.env['HOLDFAST_LIBRARY'] === 'ioredis@5' ? 'ioredis5' : 'ioredis';
  await write('package.json', JSON.stringify({ name: 'consumer', private: true, type: 'module' }));
  const packages = [`./${packed}`, `ioredis@${await installedVersion(ioredis)}`];
  await run('npm', ['install', '--no-audit', '--no-fund', '--prefer-offline', ...packages], {
    cwd: project,
  });
  await symlink(resolve('node_modules/@types'), join(project, 'node_modules/@types'));
}, 180_000);

afterAll(async () => {
  await rm(project, { recursive: true });
});

describe('the packed package', () => {
  it('contains the build and its docs, and no sources, maps or tests', async () => {
    const { stdout } = await run('npm', ['pack', '--dry-run', '--json', '--ignore-scripts']);
    const [{ files }] = JSON.parse(stdout) as [{ files: { path: string }[] }];
    const paths = files.map(({ path }) => path);
    expect(paths).toEqual(
      expect.arrayContaining(['dist/index.js', 'dist/index.d.ts', 'lua/README.md']),
    );
    expect(paths).toEqual(
      expect.arrayContaining([
        'dist/cli/main.js',
        'dist/ui/page/page.html',
        'dist/ui/page/uplot.js',
      ]),
    );
    expect(paths).toEqual(expect.arrayContaining(['README.md', 'LICENSE', 'CHANGELOG.md']));
    expect(paths, 'the help of an error').toContain(new OptionError('').help.split('#')[0]);
    expect(
      paths.filter((path) => /^(src|test|scripts)\/|^(benchmarks|demo)\/.*\.ts$|\.map$/.test(path)),
    ).toEqual([]);
  });

  it('works when imported', async () => {
    await write('use.mjs', `import { Holdfast } from 'holdfast';\n${USE}`);
    expect(await runInProject('use.mjs')).toBe('held 1\nfree\n');
  });

  it('has a command line, the live page, and metrics if OpenTelemetry is there', async () => {
    const { stdout } = await run('npx', ['holdfast', 'acl', '--prefix', 'app:'], { cwd: project });
    expect(stdout).toMatch(/^ACL SETUSER app on /);
    await symlink(
      resolve('node_modules/@opentelemetry'),
      join(project, 'node_modules/@opentelemetry'),
    );
    await write(
      'operate.mjs',
      `import { instrument } from 'holdfast/opentelemetry';
      import { ui } from 'holdfast/ui';
      import { MemoryRedis } from 'holdfast/testing';
      import { Holdfast } from 'holdfast';
      import { createServer } from 'node:http';
      const holdfast = new Holdfast({ redis: new MemoryRedis() });
      instrument(holdfast).stop();
      const server = createServer(ui(holdfast)).listen(0, '127.0.0.1', async () => {
        const page = await fetch('http://127.0.0.1:' + server.address().port + '/page.html');
        const files = ['', 'page.js', 'uplot.css'].map((file) =>
          fetch('http://127.0.0.1:' + server.address().port + '/' + file));
        console.log(page.status, (await Promise.all(files)).map(({ status }) => status).join(' '));
        server.close();
        server.closeAllConnections();
        await holdfast.close();
      });`,
    );
    expect(await runInProject('operate.mjs')).toBe('404 200 200 200\n');
  });

  it('has adapters, each of which needs its own framework only', async () => {
    const names = ['cron', 'fastify', 'nestjs'].map((name) => `holdfast/${name}`);
    await write(
      'adapters.mjs',
      `for (const name of ${JSON.stringify(names)})
        await import(name).then(
          (adapter) => console.log(name, Object.keys(adapter).join(' ')),
          ({ message }) => console.log(name, message.replace(/ imported from .*/, '')),
        );`,
    );
    expect(await runInProject('adapters.mjs')).toBe(
      [
        'holdfast/cron cronerTick onePerTick runCoordinator',
        "holdfast/fastify Cannot find package 'fastify-plugin'",
        "holdfast/nestjs Cannot find package '@nestjs/common'",
        '',
      ].join('\n'),
    );
    for (const needed of ['fastify-plugin', '@nestjs'])
      await symlink(resolve('node_modules', needed), join(project, 'node_modules', needed));
    expect(await runInProject('adapters.mjs')).toBe(
      [
        'holdfast/cron cronerTick onePerTick runCoordinator',
        'holdfast/fastify default',
        'holdfast/nestjs HoldfastHealthIndicator HoldfastModule InjectHoldfast Lock currentHold getHoldfastToken',
        '',
      ].join('\n'),
    );
  });

  it('works when required from CommonJS', async () => {
    await write('use.cjs', `const { Holdfast } = require('holdfast');\n${USE_IN_COMMONJS}`);
    expect(await runInProject('use.cjs')).toBe('held 1\nfree\n');
  });

  it('reports where it found ioredis, and what it needs, if an old one is installed', async () => {
    const packages = 'old/node_modules';
    await cp(join(project, 'node_modules/holdfast'), join(project, packages, 'holdfast'), {
      recursive: true,
    });
    const version = JSON.stringify({ name: 'ioredis', version: '4.28.5' });
    await mkdir(join(project, packages, 'ioredis'));
    await write(`${packages}/ioredis/package.json`, version);
    await write(`${packages}/ioredis/index.js`, OLD_IOREDIS);
    await write('old/use.mjs', `import { Holdfast } from 'holdfast';\n${USE}`);
    await expect(runInProject('old/use.mjs')).rejects.toMatchObject({
      stderr: expect.stringMatching(
        /option "redis" needs ioredis, and holdfast finds an older one \(.*ioredis.index\.js\): npm install ioredis \(5\.11 or newer, or 6\)/,
      ) as unknown,
    });
  });

  it.skipIf(!existsSync(ESBUILD))("reports a server's refusal in a minified bundle", async () => {
    await write('bundled.mjs', BUNDLED);
    const options = ['--bundle', '--minify', '--platform=node', '--outfile=bundle.cjs'];
    await run(ESBUILD, ['bundled.mjs', ...options], { cwd: project });
    expect(await runInProject('bundle.cjs')).toBe('KEY_CONFLICT KeyConflictError\n');
  });

  it.each(['typed.mts', 'typed.cts'])(
    'type-checks in %s',
    async (file) => {
      await write(file, TYPED);
      await typeCheck(file);
    },
    120_000,
  );

  it('rejects wrong types', async () => {
    await write('wrong.mts', TYPED.replace('lease: 5_000', "lease: '5s'"));
    await expect(typeCheck('wrong.mts')).rejects.toMatchObject({
      stdout: expect.stringContaining("Type 'string' is not assignable to type 'number'") as string,
    });
  }, 120_000);
});

const USE = `
const holdfast = new Holdfast({ redis: process.argv[2] });
const lock = holdfast.getLock(process.argv[3]);
await lock.withLock(async () => console.log('held', await lock.getHoldCount()));
console.log((await lock.isLocked()) ? 'held' : 'free');
await holdfast.close();
`;

const USE_IN_COMMONJS = `(async () => {${USE}})();`;

/** As ioredis 4 exports its classes: none is named Redis. */
const OLD_IOREDIS = `
exports = module.exports = class Redis {};
exports.default = module.exports;
exports.Cluster = class Cluster {};
exports.Command = class Command {};
`;

const BUNDLED = `
import { Holdfast } from 'holdfast';
import { Redis } from 'ioredis';

const [, , url, name] = process.argv;
const redis = new Redis(url);
const holdfast = new Holdfast({ redis });
const refused = redis.set(name, 'no lock').then(() => holdfast.getLock(name).tryLock());
refused
  .catch(({ code, name }) => console.log(code, name))
  .then(() => redis.del(name))
  .then(() => redis.disconnect())
  .then(() => holdfast.close());
`;

const TYPED = `
import { Holdfast, LockTimeoutError, type Hold, type Lock } from 'holdfast';

const holdfast = new Holdfast({ redis: 'redis://localhost', lockWatchdogTimeout: 10_000 });
const lock: Lock = holdfast.getLock('orders');
export async function use(): Promise<number> {
  const entered: boolean = await lock.tryLock(100, 5_000);
  if (entered) await lock.unlock();
  const hold: Hold | undefined = await lock.tryAcquire({ wait: 100, lease: 5_000 });
  if (hold) await hold.release();
  try {
    return await lock.withLock({ lease: 5_000 }, (held) => Promise.resolve(held.remaining()));
  } catch (error) {
    return error instanceof LockTimeoutError ? -1 : 0;
  }
}
`;

async function runInProject(file: string): Promise<string> {
  const args = [file, inject('redisUrl'), uniqueName('packed')];
  const { stdout } = await run(process.execPath, args, { cwd: project, timeout: 20_000 });
  return stdout;
}

async function typeCheck(file: string): Promise<void> {
  const options = [
    '--noEmit',
    '--strict',
    '--module',
    'nodenext',
    '--target',
    'es2023',
    '--types',
    'node',
  ];
  await run(process.execPath, [resolve('node_modules/typescript/bin/tsc'), ...options, file], {
    cwd: project,
  });
}

async function write(file: string, content: string): Promise<void> {
  await writeFile(join(project, file), content);
}

async function installedVersion(name: string): Promise<string> {
  const { version } = JSON.parse(await readFile(`node_modules/${name}/package.json`, 'utf8')) as {
    version: string;
  };
  return version;
}
