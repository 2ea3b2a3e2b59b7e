// Several servers were asked, and what they answered decides nothing: asked again a little later, they may decide.

import type { HoldfastError } from '../api/holdfast-error.js';

export abstract class Undecided extends Error {
  /** What the caller is told when nobody asks again. */
  abstract readonly told: HoldfastError;
  /** Whether one of the servers may have done what it was asked to do: asked again, it may find that done. */
  abstract readonly mayHaveRun: boolean;
}
