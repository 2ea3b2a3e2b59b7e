// The part of npm's redlock that is used here: its package names no types for those who import it as an ES module.

declare module 'redlock' {
  import type { Redis } from 'ioredis';

  export interface Lock {
    release(): Promise<unknown>;
  }

  export class ExecutionError extends Error {}

  export default class Redlock {
    constructor(clients: Iterable<Redis>);
    acquire(resources: string[], duration: number): Promise<Lock>;
    using<T>(resources: string[], duration: number, routine: () => Promise<T>): Promise<T>;
  }
}
