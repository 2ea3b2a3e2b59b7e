// Set-up file of all tests: a process warning of holdfast that no test of the file provokes is printed, with the name of its test.
import { relative } from 'node:path';
import { afterAll, expect } from 'vitest';
import { forgetExpectedWarnings, isExpectedWarning } from './expected-warnings.js';

const before = Object.getOwnPropertyDescriptor(process, 'emitWarning')!;
const emitWarning = process.emitWarning.bind(process);

// Several files may run in one thread, one after another.
afterAll(() => {
  Object.defineProperty(process, 'emitWarning', before);
  forgetExpectedWarnings();
});

process.emitWarning = (warning: string | Error, ...more: unknown[]) => {
  const isOurs = typeof warning === 'string' && more[0] === 'HoldfastWarning';
  if (isOurs && isExpectedWarning(warning)) return;
  const shown = isOurs ? `${warning}\n  in ${currentTest()}` : warning;
  (emitWarning as (...args: unknown[]) => void)(shown, ...more);
};

function currentTest(): string {
  const { testPath = '', currentTestName = 'no test' } = expect.getState();
  return `${relative('.', testPath)}: ${currentTestName}`;
}
