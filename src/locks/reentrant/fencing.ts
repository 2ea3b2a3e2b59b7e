// The keys and arguments that a script takes besides when it is to grant a lock with a fencing token.

export interface Fencing {
  /** The key of the last token. */
  readonly keys: readonly string[];
  /** How long a token is remembered, in milliseconds; 0: for ever. */
  readonly args: readonly number[];
}

/** For locks without tokens: their scripts take nothing besides. */
export const NO_FENCING: Fencing = { keys: [], args: [] };
