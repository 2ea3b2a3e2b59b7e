// Set-up file of the unit tests, of which many files run in one thread, one after another: a timer that one leaves behind does not ring in
// the next.
const thread = globalThis as { testFileNumber?: number };

if (thread.testFileNumber === undefined) {
  globalThis.setTimeout = inItsFile(globalThis.setTimeout);
  globalThis.setInterval = inItsFile(globalThis.setInterval);
}
thread.testFileNumber = (thread.testFileNumber ?? 0) + 1;

function inItsFile<T extends typeof setTimeout | typeof setInterval>(start: T): T {
  const startHere = (callback: (...args: unknown[]) => void, ms?: number, ...args: unknown[]) => {
    const file = thread.testFileNumber;
    return start(() => {
      if (file === thread.testFileNumber) callback(...args);
    }, ms);
  };
  return Object.assign(startHere, start);
}
