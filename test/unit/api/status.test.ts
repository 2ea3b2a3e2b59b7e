// The HTTP status that an error comes to.
import { expect, it } from 'vitest';
import {
  ClosedError,
  KeyConflictError,
  LockAbortedError,
  LockExportedError,
  LockLostError,
  LockNotHeldError,
  LockTimeoutError,
  LockUpgradeError,
  OptionError,
  QuorumError,
  statusOf,
  UnavailableError,
} from '../../../src/index.js';

const lost = new LockLostError('lost', { lossReason: 'expired' });

it.each<[number | undefined, Error]>([
  [409, new LockTimeoutError('held')],
  [503, new UnavailableError('down')],
  [503, new QuorumError('down', { nodes: [] })],
  [503, new ClosedError('closed')],
  [undefined, new LockAbortedError('gone')],
  [500, lost],
  [500, new Error('aborted', { cause: lost })], // as of work that the signal aborts
  [500, new LockExportedError('exported')],
  [500, new LockNotHeldError('not held')],
  [500, new LockUpgradeError('reads')],
  [500, new KeyConflictError('a string')],
  [500, new OptionError('wait is -1')],
])('is %s for %s', (status, error) => {
  expect(statusOf(error)).toBe(status);
});

it('is that of an error of another copy of the package, whose classes are others', () => {
  const { code, help, message } = new LockTimeoutError('held');
  expect(statusOf(Object.assign(new Error(message), { code, help }))).toBe(409);
});

it('is undefined for what is no error of holdfast', () => {
  const others = [undefined, null, 'LOCK_TIMEOUT', 409, {}, new Error('no such account')];
  for (const other of others) expect(statusOf(other)).toBeUndefined();
  const wrapped = new Error('the report failed', { cause: new LockTimeoutError('held') });
  expect(statusOf(wrapped)).toBeUndefined(); // not known what was done before
  for (const code of ['toString', 'ECONNREFUSED', 'LOCK_TIMEOUT'])
    expect(statusOf(Object.assign(new Error('of another library'), { code }))).toBeUndefined();
});
