// Says whether a figure meets its target. A missed target is said, not failed: what counts as slow depends on the
// machine and its network.

export function verdict(what: string, isMet: boolean, target: string): void {
  console.log(`  ${what}: ${isMet ? 'meets' : 'misses'} the target of ${target}`);
}
