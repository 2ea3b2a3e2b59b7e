// What the latency benchmark and its two processes tell each other: one hands something over, the other gets it.

export type Way =
  | 'fair'
  | 'reentrant'
  /** The scripts of the fair lock, from a plain client to a plain subscriber. */
  | 'scripts'
  /** One script that publishes one message, from a plain client to a plain subscriber. */
  | 'publish';

export type Order =
  /** To the giver: hold the lock. */
  | { readonly do: 'hold'; readonly way: Way; readonly name: string }
  /** To the taker: wait for it. */
  | { readonly do: 'wait'; readonly way: Way; readonly name: string }
  /** To the giver: let go. The answer is when that began. */
  | { readonly do: 'let go'; readonly way: Way; readonly name: string }
  /** To the taker: when did you have it? */
  | { readonly do: 'tell' };

/** A time on the machine's monotonic clock, where one was asked for. */
export type Answer = number | 'done';
