// The part of npm's redlock that is used here: its package names no types for importers of the ES module.

declare module 'redlock' {
  import type { EventEmitter } from 'node:events';
  import type { Redis } from 'ioredis';

  export interface Lock {
    release(): Promise<unknown>;
  }

  export interface Settings {
    retryCount?: number;
    retryDelay?: number;
    retryJitter?: number;
  }

  export class ExecutionError extends Error {}

  export default class Redlock extends EventEmitter {
    constructor(clients: Iterable<Redis>, settings?: Settings);
    acquire(resources: string[], duration: number, settings?: Settings): Promise<Lock>;
    using<T>(
      resources: string[],
      duration: number,
      routine: (signal: AbortSignal) => Promise<T>,
    ): Promise<T>;
  }
}
