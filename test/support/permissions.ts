// What the README says that a user needs: its two lines, as arguments of ACL SETUSER.
import { readFileSync } from 'node:fs';

const README = new URL('../../README.md', import.meta.url);

/** The arguments behind ACL SETUSER <user>, for a key prefix of one's own. */
export function readmePermissions(kind: 'server' | 'cluster', keyPrefix: string): string[] {
  const lines = [...readFileSync(README, 'utf8').matchAll(/^ACL SETUSER app (.*(?:\n {2}.*)*)/gm)];
  const [, rules = ''] = lines[kind === 'server' ? 0 : 1] ?? [];
  return rules.split(/\s+/).map((rule) => rule.replace('app:', keyPrefix));
}

/** The commands among such rules, in lower case: "hset", "pubsub|numsub". */
export function permittedCommands(rules: readonly string[]): string[] {
  return rules.filter((rule) => /^\+[a-z]/.test(rule)).map((rule) => rule.slice(1));
}
