// The process warnings of holdfast that the tests of this file provoke. Others are printed (unexpected-warnings.ts).

const expected: RegExp[] = [];

/** What a client without a listener for `error` warns of when a server or a connection fails. */
const OUTAGE =
  /^(the .* connection to Redis \(.*\) failed: |renewal of \d+ leases? was not answered|lock ".*" not known to be (released|held): )/;

/** A test of this file provokes warnings that this matches. It should assert whatever matters of them. */
export function expectWarnings(pattern: RegExp): void {
  expected.push(pattern);
}

/** A test of this file gives leases or the like that would be too short for work. */
export function expectShortTimes(): void {
  expectWarnings(/ milliseconds, which is very short: /);
}

/** A test of this file makes servers or connections fail. */
export function expectOutages(): void {
  if (!expected.includes(OUTAGE)) expected.push(OUTAGE);
}

export function forgetExpectedWarnings(): void {
  expected.length = 0;
}

export function isExpectedWarning(message: string): boolean {
  return expected.some((pattern) => pattern.test(message));
}
