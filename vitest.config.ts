// Three test projects: unit (no Redis, fake timers), integration (real servers, nothing mocked), and redisson (the same
// servers shared with Redisson itself, where there are Java and Maven).
import { availableParallelism, loadavg } from 'node:os';
import { defineConfig } from 'vitest/config';
import { filesThatStartServers } from './test/support/server-needs.js';

// HOLDFAST_IOREDIS=5 runs the same tests on ioredis 5; child processes do it by ioredis5-loader.mjs.
const alias =
  process.env['HOLDFAST_IOREDIS'] === '5' ? [{ find: /^ioredis$/, replacement: 'ioredis5' }] : [];

/**
 * Most tests wait for something rather than compute: eight at a time, but half as many where a lot of other work is waiting for the
 * processors. Nobody should stand still for longer than the leases of these tests, a second or two.
 */
const [load = 0] = loadavg();
const WORKERS = load < 2 * availableParallelism() ? 8 : 4;

// Notes beside the lines that failed; vitest adds it by itself only to its own choice of a reporter.
const onGitHub = process.env['GITHUB_ACTIONS'] === 'true' ? ['github-actions'] : [];

export default defineConfig({
  resolve: { alias },
  test: {
    restoreMocks: true,
    // What a test prints is shown where it fails.
    silent: 'passed-only',
    reporters: ['./test/support/progress-reporter.ts', ...onGitHub],
    setupFiles: ['test/support/unexpected-warnings.ts'],
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['test/unit/**/*.test.ts'],
          // vitest would leave one processor to itself, half of a small machine.
          maxWorkers: availableParallelism(),
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
