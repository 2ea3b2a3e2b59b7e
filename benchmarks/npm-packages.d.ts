// The parts of the packages that only the benchmarks use, so that the types of this repository can be checked without them.

declare module 'redis-semaphore' {
  import type { Redis } from 'ioredis';

  export interface LockOptions {
    lockTimeout?: number;
    retryInterval?: number;
  }

  export class TimeoutError extends Error {}

  export class Mutex {
    constructor(client: Redis, key: string, options?: LockOptions);
    acquire(): Promise<void>;
    release(): Promise<void>;
  }

  export class RedlockMutex {
    constructor(clients: Redis[], key: string, options?: LockOptions);
    acquire(): Promise<void>;
    release(): Promise<void>;
  }
}

declare module 'redlock-universal' {
  import type { Redis } from 'ioredis';

  export class IoredisAdapter {
    constructor(client: Redis);
    ping(): Promise<string>;
  }

  export interface CreateRedlockConfig {
    readonly adapters: readonly IoredisAdapter[];
    readonly key: string;
    readonly ttl?: number;
    readonly retryAttempts?: number;
    readonly retryDelay?: number;
  }

  export interface CreateLockConfig extends Omit<CreateRedlockConfig, 'adapters'> {
    readonly adapter: IoredisAdapter;
    readonly performance?: 'standard' | 'lean' | 'enterprise';
    readonly circuitBreaker?: boolean;
  }

  export interface LockHandle {
    readonly id: string;
  }

  export interface Lock {
    acquire(): Promise<LockHandle>;
    release(handle: LockHandle): Promise<boolean>;
    using<T>(routine: (signal: AbortSignal) => Promise<T>): Promise<T>;
  }

  export class LockAcquisitionError extends Error {}
  export function createLock(config: CreateLockConfig): Lock;
  export function createRedlock(config: CreateRedlockConfig): Lock;
}

declare module 'node-redisson' {
  import type { Redis, RedisOptions } from 'ioredis';

  export class Redisson {
    constructor(config: {
      redis: { options: RedisOptions };
      eventAdapter?: 'streams' | 'pubsub';
      lockWatchdogTimeout?: bigint;
    });
    readonly redis: Redis;
    getLock(name: string): { lock(): Promise<void>; unlock(): Promise<void> };
    quit(): Promise<void>;
  }
}

declare module 'echarts' {
  export type CustomSeriesRenderItem = (
    params: object,
    api: { value(dimension: number): number; coord(point: number[]): number[] },
  ) => object;
}

declare module 'echarts/core' {
  export type EChartsCoreOption = Record<string, unknown>;
  export function use(extensions: readonly unknown[]): void;
  export function init(
    dom: null,
    theme: null,
    options: { renderer: 'svg'; ssr: true; width: number; height: number },
  ): {
    setOption(option: EChartsCoreOption): void;
    renderToSVGString(): string;
    dispose(): void;
  };
}

declare module 'echarts/charts' {
  export const BarChart: unknown;
  export const CustomChart: unknown;
  export const LineChart: unknown;
}

declare module 'echarts/components' {
  export const GridComponent: unknown;
  export const LegendComponent: unknown;
  export const TitleComponent: unknown;
}

declare module 'echarts/renderers' {
  export const SVGRenderer: unknown;
}
