// Checks the package that would be published: publint reads its package.json, and a program that imports every export is type-checked, in ES
// modules and in CommonJS, by every "moduleResolution", with the oldest TypeScript that is supported and with the newest.
import { execFile, execFileSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { publint } from 'publint';
import { formatMessage } from 'publint/utils';
import { installPackages, root } from './setup.mjs';

const OLDEST = `${root}test/support/typescript-5.4`;
const COMPILERS = [OLDEST, root].map((folder) => join(folder, 'node_modules/typescript'));

/** Each with the "module" that goes with it. */
const RESOLUTIONS = {
  node10: 'commonjs',
  node16: 'node16',
  nodenext: 'nodenext',
  bundler: 'es2022',
};

const PROGRAM = `
import { Holdfast, LockTimeoutError, type Hold, type Lock } from 'holdfast';
import { onePerTick } from 'holdfast/cron';
import holdfastPlugin from 'holdfast/fastify';
import { HoldfastModule } from 'holdfast/nestjs';
import { instrument } from 'holdfast/opentelemetry';
import { MemoryRedis } from 'holdfast/testing';
import { ui } from 'holdfast/ui';

const holdfast: Holdfast = new Holdfast({ redis: new MemoryRedis() });
const lock: Lock = holdfast.getLock('orders');
export const hold: Promise<Hold | undefined> = lock.tryAcquire({ wait: 100 });
export const isLate = (error: unknown): boolean => error instanceof LockTimeoutError;
export const used = [onePerTick, holdfastPlugin, HoldfastModule, instrument(holdfast), ui(holdfast)];
// @ts-expect-error The types are there, and refuse this.
void lock.tryAcquire({ wait: 'long' });
// @ts-expect-error
void holdfastPlugin.register();
`;

const { exports } = JSON.parse(readFileSync('package.json', 'utf8'));
const missing = Object.keys(exports)
  .map((path) => path.replace(/^\./, 'holdfast'))
  .filter((name) => !name.endsWith('.json') && !PROGRAM.includes(`from '${name}'`));
if (missing.length > 0)
  throw new Error(`scripts/check-package.mjs does not import ${missing.join(', ')}`);

// TypeScript is to read these as CommonJS, though they describe an ES module: Node.js can require that.
const isForRequire = ({ code, path }) =>
  code === 'EXPORTS_TYPES_INVALID_FORMAT' && path.at(-2) === 'require';
const { messages, pkg } = await publint({ strict: true });
const faults = messages.filter((message) => !isForRequire(message));
for (const fault of faults) console.error(formatMessage(fault, pkg));
if (faults.length > 0) process.exit(1);

installPackages(OLDEST);
const project = mkdtempSync(join(tmpdir(), 'holdfast-types-'));
try {
  install();
  const failures = await inTurn(jobs(), Math.min(2, availableParallelism()));
  for (const failure of failures) console.error(failure);
  if (failures.length > 0) process.exitCode = 1;
  else console.log(`The types of all exports are found in ${jobs().length} kinds of projects.`);
} finally {
  rmSync(project, { recursive: true });
}

/** Unpacks the package between links to all packages that are installed here. */
function install() {
  const packages = join(project, 'node_modules');
  mkdirSync(packages);
  for (const name of readdirSync('node_modules').filter((each) => !each.startsWith('.'))) {
    symlinkSync(resolve('node_modules', name), join(packages, name));
  }
  const args = ['pack', '--silent', '--ignore-scripts', '--pack-destination', project];
  const packed = execFileSync('npm', args, { encoding: 'utf8' }).trim();
  execFileSync('tar', ['-xzf', packed], { cwd: project });
  rmSync(join(packages, 'holdfast'), { force: true });
  symlinkSync(join(project, 'package'), join(packages, 'holdfast'));
  for (const type of ['commonjs', 'module']) {
    mkdirSync(join(project, type));
    writeFileSync(join(project, type, 'package.json'), JSON.stringify({ type }));
    writeFileSync(join(project, type, 'program.ts'), PROGRAM);
  }
}

function jobs() {
  return COMPILERS.flatMap((compiler) =>
    Object.entries(RESOLUTIONS).flatMap(([resolution, module]) =>
      ['commonjs', 'module'].map((type) => ({ compiler, resolution, module, type })),
    ),
  );
}

/** What the compiler says of the program, and of the declarations of holdfast; those of other packages are no business of ours. */
async function check({ compiler, resolution, module, type }) {
  const { version } = JSON.parse(readFileSync(join(compiler, 'package.json'), 'utf8'));
  const options = {
    module,
    moduleResolution: resolution,
    strict: 'true',
    target: 'es2022',
    types: 'node',
    esModuleInterop: 'true',
    experimentalDecorators: 'true',
    preserveSymlinks: 'true',
    noEmit: 'true',
    // The strictest is enough for the declarations, which takes time.
    skipLibCheck: String(resolution !== 'node16'),
    ...(resolution === 'node10' && version >= '6' && { ignoreDeprecations: '6.0' }),
  };
  const words = Object.entries(options).flatMap(([name, value]) => [`--${name}`, value]);
  const args = [join(compiler, 'bin/tsc'), ...words, join(type, 'program.ts')];
  const output = await new Promise((done, failed) => {
    execFile(process.execPath, args, { cwd: project, maxBuffer: 2 ** 26 }, (error, stdout) => {
      if (error && stdout === '') failed(error);
      else done(stdout);
    });
  });
  const ours = /^(commonjs|module|node_modules\/holdfast|error)/;
  const lines = output.split('\n').filter((line) => ours.test(line));
  return lines.map((line) => `TypeScript ${version}, ${resolution}, ${type}: ${line}`);
}

async function inTurn(list, atOnce) {
  const failures = [];
  const left = list.values();
  const work = async () => {
    for (const job of left) failures.push(...(await check(job)));
  };
  await Promise.all(Array.from({ length: atOnce }, work));
  return failures;
}
