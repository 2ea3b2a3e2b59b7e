// The methods that locks have, and semaphores and read-write locks have not: whoever calls one, in plain JavaScript, is told what to call
// instead of "is not a function".

/**
 * Adds methods that reject with a TypeError. No type declares them, so TypeScript refuses the call as before.
 *
 * @param instead - what to call, by the name of the method
 */
export function addMissingMethods(
  { prototype }: { readonly prototype: { readonly name: string } },
  kind: string,
  instead: Readonly<Record<string, string>>,
): void {
  for (const [method, right] of Object.entries(instead)) {
    const value = function (this: { readonly name: string }): Promise<never> {
      const message = `${kind} "${this.name}" has no ${method}(): use ${right}`;
      return Promise.reject(new TypeError(message));
    };
    Object.defineProperty(prototype, method, { value, configurable: true });
  }
}
