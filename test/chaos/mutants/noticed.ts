// Which violation says that a broken rule was noticed.
import { ODD_ERROR, TROUBLE } from '../checker/check.js';
import type { Violation } from '../checker/evidence.js';

/** What also a mutant breaks that does nothing but crash: then nobody has seen the rule that it is about. */
const TELL_NOTHING: ReadonlySet<string> = new Set([TROUBLE, ODD_ERROR]);

/** The first that tells something; undefined: none does. */
export function noticed(violations: readonly Violation[]): Violation | undefined {
  return violations.find(({ rule }) => !TELL_NOTHING.has(rule));
}
