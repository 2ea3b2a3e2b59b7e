// What the scripts that grant a lock take besides, where they are to give each holder a fencing token.

export interface Fencing {
  /** The key of the last token. */
  readonly keys: readonly string[];
  /** How long a token is remembered, in milliseconds; 0: for ever. */
  readonly args: readonly number[];
}

/** They give none. */
export const NO_FENCING: Fencing = { keys: [], args: [] };
