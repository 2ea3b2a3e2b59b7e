// What main.ts plays: a show brings its own servers and processes, and takes them away again.

export interface Show {
  /** What is seen, for the usage line. */
  readonly about: string;
  /** Plays it to its end; whether it showed what it is there to show. Rejects when the signal aborts. */
  play(signal: AbortSignal): Promise<boolean>;
}
