// holdfast: distributed locks for Node.js on Redis or Valkey. All that is public.

export {
  Holdfast,
  type HoldfastOptions,
  type HoldfastStatus,
  type PingOptions,
} from './holdfast.js';
export type { Lock } from './lock.js';
export type { FairLock } from './fair-lock.js';
export type { HoldDescription, HoldfastDescription, LockDescription } from './description.js';
export type { Hold } from './hold.js';
export type { AcquireOptions, LockOptions, RedLockOptions } from './options.js';
export type { RedisSource } from './redis/clients.js';
export {
  ClosedError,
  HoldfastError,
  KeyConflictError,
  LockAbortedError,
  LockLostError,
  LockNotHeldError,
  LockTimeoutError,
  OptionError,
  QuorumError,
  UnavailableError,
  type ErrorCode,
  type ErrorContext,
  type LossReason,
  type NodeAnswer,
  type SeenHolder,
} from './errors.js';
export type {
  AcquiredEvent,
  ErrorEvent,
  HoldfastEvents,
  LockEvent,
  LostEvent,
  ReleasedEvent,
  RenewedEvent,
  WaitingEvent,
  WarningEvent,
} from './events.js';
