// Lint rules: typescript-eslint's strict, type-aware set; CONTRIBUTING.md says why each exception is one.
import js from '@eslint/js';
import { defineConfig, globalIgnores } from 'eslint/config';
import tseslint from 'typescript-eslint';

/** So that a client can live on the time of a server in memory, and a simulator can repeat a run. */
const OF_CLIENT = 'Time and randomness are those of the client: its `clock` and `random`';

function restricted(...names) {
  return names.map((name) => ({ name, message: OF_CLIENT }));
}

export default defineConfig(
  globalIgnores([
    'dist/',
    'dist-bench/',
    'docs/.vitepress/cache/',
    'docs/.vitepress/dist/',
    'coverage/',
    '**/*.generated.ts',
    'src/ui/page/uplot.js',
  ]),
  js.configs.recommended,
  {
    files: ['**/*.ts'],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: {
      parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname },
    },
    rules: {
      '@typescript-eslint/consistent-type-definitions': ['error', 'interface'],
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/no-extraneous-class': ['error', { allowWithDecorator: true }],
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      '@typescript-eslint/switch-exhaustiveness-check': 'error',
    },
  },
  {
    files: ['src/**/*.ts'],
    ignores: [
      'src/runtime/clock.ts',
      'src/testing/memory-clock.ts',
      'src/redis/ioredis/**',
      'src/redis/node-redis/**',
      // Programs and subscribers beside the library: the process's time is theirs.
      'src/cli/**',
      'src/telemetry/**',
      'src/ui/**',
      'src/adapters/**',
    ],
    rules: {
      'no-restricted-globals': [
        'error',
        {
          globals: restricted('performance', 'setTimeout', 'setInterval', 'clearTimeout'),
          checkGlobalObject: true,
        },
      ],
      'no-restricted-properties': [
        'error',
        { object: 'Date', property: 'now', message: OF_CLIENT },
        { object: 'Math', property: 'random', message: OF_CLIENT },
      ],
      'no-restricted-syntax': [
        'error',
        { selector: "NewExpression[callee.name='Date'][arguments.length=0]", message: OF_CLIENT },
      ],
      'no-restricted-imports': [
        'error',
        ...restricted('node:timers/promises', 'node:perf_hooks'),
        { name: 'node:timers', importNames: ['setTimeout', 'setInterval'], message: OF_CLIENT },
      ],
    },
  },
  {
    files: ['test/**/*.ts', 'benchmarks/**/*.ts', 'demo/**/*.ts'],
    rules: {
      '@typescript-eslint/no-non-null-assertion': 'off',
    },
  },
  {
    files: ['test/unit/**/*.ts'],
    rules: {
      'no-restricted-properties': [
        'error',
        {
          object: 'vi',
          property: 'mock',
          message: 'It would reach the next files of the same thread: see CONTRIBUTING.md, Tests',
        },
      ],
    },
  },
  {
    files: ['**/*.js', '**/*.mjs'],
    languageOptions: {
      globals: {
        AbortSignal: 'readonly',
        console: 'readonly',
        process: 'readonly',
        URL: 'readonly',
      },
    },
  },
  {
    files: ['src/ui/page/page.js'],
    languageOptions: {
      globals: Object.fromEntries(
        'document window location localStorage fetch setInterval setTimeout getComputedStyle EventSource HTMLInputElement uPlot'
          .split(' ')
          .map((name) => [name, 'readonly']),
      ),
    },
  },
);
