// A way to spoil the library, which a campaign must notice.
import type { Kind } from '../plan.js';

export interface Mutant {
  readonly name: string;
  /** What is wrong with it, in a few words. */
  readonly what: string;
  /** The rounds in which it shows. */
  readonly kinds: readonly Kind[];
  /** Whether it shows only where Redlocks give tokens. */
  readonly isFenced?: boolean;
  readonly edits: readonly Edit[];
}

/** Text that stands once in all of lua/ or src/, and what stands there instead. */
export interface Edit {
  readonly in: 'lua' | 'src';
  readonly from: string;
  readonly to: string;
}
