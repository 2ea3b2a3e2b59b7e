// Says which Node.js is needed, before something that an older one lacks fails in words that do not tell.

/** By what is there, not by a version: Bun and Deno name versions of Node.js that tell nothing. */
export function assertRuntime(): void {
  if (typeof String.prototype.isWellFormed === 'function') return;
  throw new Error(
    `holdfast needs Node.js 20.19 or newer; this is ${process.versions.node}: update Node.js`,
  );
}
