// The output of tests: unexpected warnings of ours, with the name of the test.
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { expectWarnings } from '../../support/expected-warnings.js';

it('a process warning is printed with the name of its test, unless the file expects it', async () => {
  const printed: string[] = [];
  const printers = process.listeners('warning');
  process.removeAllListeners('warning');
  process.on('warning', ({ message }) => printed.push(message));
  onTestFinished(() => {
    process.removeAllListeners('warning');
    for (const printer of printers) process.on('warning', printer);
  });
  expectWarnings(/^provoked/);
  process.emitWarning('provoked by a test', 'HoldfastWarning');
  process.emitWarning('not provoked', 'HoldfastWarning');
  process.emitWarning('provoked by others', 'AnotherWarning');
  await nextTurn();
  expect(printed.filter((message) => message.includes('provoked'))).toEqual([
    'not provoked\n  in test/unit/project/expected-warnings.test.ts: a process warning is printed with the name of its test, unless the file expects it',
    'provoked by others',
  ]);
});
