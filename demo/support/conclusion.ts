// How a show ends: with its figures, and with what to make of them.

/** Prints it; `bug` is what was seen instead of what the show is there to show. Whether there is none. */
export function conclude(report: string, bug: string | undefined, moral: string): boolean {
  console.log(`${report}\n${bug === undefined ? moral : `${bug}: a bug.`}`);
  return bug === undefined;
}
