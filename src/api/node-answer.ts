// What one master of a Redlock said when it was asked for its vote.

/**
 * What one master of a Redlock answered.
 *
 * - `acquired`: it counts the caller as the holder
 * - `held`: somebody else holds the lock there
 * - `gone`: the caller held it there, and does not any more
 * - `unreachable`: it gave no answer in time, or none that counts: `reason` says why
 * - `guarded`: it was started too recently to vote
 *
 * @group Errors
 */
export type NodeAnswer = {
  /** The address of the master: `host:port`; of one that Sentinels name `group by host:port`, the latter being the first Sentinel's. */
  readonly node: string;
} & (
  | {
      /** What it said. */
      readonly answer: 'acquired' | 'gone';
    }
  | {
      /** What it said. */
      readonly answer: 'held';
      /** The owner that holds it there: `<clientId>:<n>`. */
      readonly holder: string;
      /** What is left of that owner's lease, in milliseconds; -1: no expiry. */
      readonly holderTtlMs: number;
    }
  | {
      /** What it said. */
      readonly answer: 'unreachable';
      /** Why it gave no answer. */
      readonly reason: string;
    }
  | {
      /** What it said. */
      readonly answer: 'guarded';
      /** In how many milliseconds it may vote. */
      readonly votesInMs: number;
      /**
       * Whether it may vote earlier if masters that do not answer now do: they can tell how long the leases were that it may have
       * forgotten.
       */
      readonly waitsForOthers: boolean;
    }
);
