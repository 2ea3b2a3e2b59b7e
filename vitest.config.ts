// Three test projects: unit (no Redis, fake timers), integration (real servers, nothing mocked), and redisson (the same servers shared with
// Redisson itself, where there are Java and Maven).
import { readdirSync, readFileSync } from 'node:fs';
import { availableParallelism, loadavg } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig, type Plugin } from 'vitest/config';
import { substituteFor } from './test/support/library-under-test.mjs';

/** The tests run on the client library that HOLDFAST_LIBRARY names. */
const libraryUnderTest: Plugin = {
  name: 'library-under-test',
  enforce: 'pre',
  resolveId(specifier, importer) {
    const substitute = substituteFor(specifier, importer);
    return substitute?.startsWith('file:')
      ? fileURLToPath(substitute)
      : substitute && this.resolve(substitute, importer, { skipSelf: true });
  },
};

/**
 * Most tests wait rather than compute: five at a time on two processors (eight take longer), but half as many when these have a lot of
 * other work. No test should be blocked for longer than its leases, a second or two.
 */
const processors = availableParallelism();
const [load = 0] = loadavg();
const WORKERS = Math.ceil(Math.min(8, 2.5 * processors) / (load < 3 * processors ? 1 : 2));

// Notes beside the failed lines; vitest adds them only if it chooses the reporter itself.
const onGitHub = process.env['GITHUB_ACTIONS'] === 'true' ? ['github-actions'] : [];

const STARTS_SERVER =
  /\b(startRedis|startPair|startSentinel|startReplicated|startCluster|startMasters|startRedisProcess)\(/;

/** The integration test files that start servers of their own: they are skipped where only HOLDFAST_REDIS_URL is given. */
function filesThatStartServers(): string[] {
  const folder = 'test/integration';
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.test.ts'))
    .map((file) => join(folder, file))
    .filter((file) => STARTS_SERVER.test(readFileSync(file, 'utf8')));
}

export default defineConfig({
  plugins: [libraryUnderTest],
  test: {
    restoreMocks: true,
    // A busy machine is slow: what is polled for must come, not come soon.
    expect: { poll: { timeout: 4_000 } },
    // The output of a test is shown when it fails.
    silent: 'passed-only',
    reporters: ['./test/support/progress-reporter.ts', ...onGitHub],
    setupFiles: ['test/support/library-under-test.mjs', 'test/support/unexpected-warnings.ts'],
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['test/unit/**/*.test.ts'],
          setupFiles: ['test/support/one-file-at-a-time.ts'],
          // Loading the library anew for each of a hundred files takes half of the time. A file that needs its modules fresh, or another module
          // in place of one, loads them with vi.resetModules(), and leaves none of them behind.
          pool: 'threads',
          isolate: false,
          // vitest would reserve one processor for itself, half of a small machine.
          maxWorkers: processors,
          testTimeout: 5_000,
        },
      },
      {
        extends: true,
        test: {
          name: 'integration',
          include: ['test/integration/**/*.test.ts'],
          exclude: process.env['HOLDFAST_TEST_BACKEND'] === 'none' ? filesThatStartServers() : [],
          globalSetup: ['test/support/shared-redis.ts'],
          setupFiles: ['test/support/clean-check.ts'],
          pool: 'forks',
          maxWorkers: WORKERS,
          // After the unit tests, not beside them.
          sequence: { groupOrder: 1 },
          expect: { poll: { timeout: 20_000 } },
          testTimeout: 30_000,
          hookTimeout: 30_000,
        },
      },
      {
        extends: true,
        test: {
          name: 'redisson',
          include: ['test/redisson/**/*.test.ts'],
          exclude: process.env['HOLDFAST_TEST_BACKEND'] === 'none' ? ['**'] : [],
          globalSetup: ['test/support/shared-redis.ts', 'test/support/redisson-build.ts'],
          setupFiles: ['test/support/clean-check.ts'],
          pool: 'forks',
          maxWorkers: 2, // each file has a Java process beside it
          sequence: { groupOrder: 2 },
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
    ],
  },
});
