// Lock names that no other test uses, and that the clean-up check recognizes.
import { randomBytes } from 'node:crypto';

/** Part of every name that this process makes up. */
export const nameToken = `t${randomBytes(5).toString('hex')}`;

/** A name of its own for each call: `t0123456789:orders:1`. */
export function uniqueName(label = 'lock'): string {
  counter++;
  return `${nameToken}:${label}:${counter}`;
}

let counter = 0;
