// Set-up file of the unit tests, of which many files run in one thread, one after another: a timer that one leaves behind does not ring in
// the next, and the next has the timers that the thread began with.
const thread = globalThis as {
  testFileNumber?: number;
  ownTimers?: Pick<typeof globalThis, 'setTimeout' | 'setInterval'>;
};

thread.testFileNumber = (thread.testFileNumber ?? 0) + 1;
thread.ownTimers ??= { setTimeout: inItsFile(setTimeout), setInterval: inItsFile(setInterval) };
Object.assign(globalThis, thread.ownTimers);

function inItsFile<T extends typeof setTimeout | typeof setInterval>(start: T): T {
  const startHere = (callback: (...args: unknown[]) => void, ms?: number, ...args: unknown[]) => {
    const file = thread.testFileNumber;
    return start(() => {
      if (file === thread.testFileNumber) callback(...args);
    }, ms);
  };
  return Object.assign(startHere, start);
}
