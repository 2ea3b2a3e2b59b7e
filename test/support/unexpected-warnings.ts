// Set-up file of all tests: a process warning of holdfast that no test of the file provokes is printed, with the name of its test.
import { relative } from 'node:path';
import { expect } from 'vitest';
import { forgetExpectedWarnings, isExpectedWarning } from './expected-warnings.js';

type Emit = (warning: string | Error, ...more: unknown[]) => void;

// Several files may run in one thread, one after another: each begins with what Node has, and expects nothing.
const thread = globalThis as { ownEmitWarning?: Emit };
const emitWarning = (thread.ownEmitWarning ??= process.emitWarning.bind(process) as Emit);
forgetExpectedWarnings();

process.emitWarning = (warning: string | Error, ...more: unknown[]) => {
  const isOurs = typeof warning === 'string' && more[0] === 'HoldfastWarning';
  if (isOurs && isExpectedWarning(warning)) return;
  emitWarning(isOurs ? `${warning}\n  in ${currentTest()}` : warning, ...more);
};

function currentTest(): string {
  const { testPath = '', currentTestName = 'no test' } = expect.getState();
  return `${relative('.', testPath)}: ${currentTestName}`;
}
