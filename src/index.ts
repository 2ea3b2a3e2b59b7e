// holdfast: distributed locks for Node.js on Redis or Valkey. Everything public but the subpaths, such as holdfast/testing.

export { Holdfast } from './holdfast.js';
export type { HoldfastOptions, HoldfastStatus, PingOptions } from './options.js';
export type { Lock } from './api/lock.js';
export type { FairLock } from './api/lock.js';
export type { FencedHold, FencedLock, FencedLockOptions } from './api/lock.js';
export type {
  PermitHold,
  PermitHoldDescription,
  PermitOptions,
  PermitWaiter,
  Semaphore,
  SemaphoreDescription,
  SemaphoreOptions,
} from './api/semaphore.js';
export type { ReadWriteLock, ReadWriteWaiter } from './api/read-write-lock.js';
export type {
  HeldLock,
  HoldDescription,
  HoldfastDescription,
  HoldfastStats,
  LockDescription,
  ReadWriteLockDescription,
  TrackingState,
} from './api/description.js';
export type { Hold } from './api/lock.js';
export type {
  AcquireOptions,
  AdoptOptions,
  ExportOptions,
  KeepOptions,
  LockOptions,
  RedLockOptions,
} from './api/options.js';
export type { RedisSource } from './redis/installed.js';
export { HoldfastError, type ErrorCode, type ErrorContext } from './api/errors.js';
export {
  ClosedError,
  KeyConflictError,
  LockAbortedError,
  LockExportedError,
  LockLostError,
  LockNotHeldError,
  LockTimeoutError,
  LockUpgradeError,
  OptionError,
  QuorumError,
  UnavailableError,
  type HolderState,
  type LossReason,
  type SeenHolder,
} from './api/errors.js';
export type { NodeAnswer } from './api/errors.js';
export { statusOf } from './api/status.js';
export { CHANNELS } from './api/channels.js';
export type {
  AcquireMessage,
  ConnectionMessage,
  HandedOverMessage,
  HoldMessage,
  LockMessage,
  LostMessage,
  Refusal,
  RenewedMessage,
  Via,
} from './api/channels.js';
export type {
  InspectedHolder,
  InspectedKind,
  InspectedOwner,
  Inspection,
  ListOptions,
} from './api/inspection.js';
export type {
  AcquiredEvent,
  ErrorEvent,
  HoldfastEvents,
  LockEvent,
  LostEvent,
  RecoveredEvent,
  ReleasedEvent,
  RefusedEvent,
  RenewedEvent,
  WaitingEvent,
  WarningEvent,
} from './api/events.js';
