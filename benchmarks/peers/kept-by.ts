// Keeps a lock by the call of a library that renews it while work is under way.

/** Resolves when the work began, which never ends. */
export function keptBy(withLock: (work: () => Promise<void>) => Promise<void>): Promise<void> {
  return new Promise((entered, reject) => {
    withLock(() => {
      entered();
      return new Promise<void>(() => undefined);
    }).catch(reject);
  });
}
