// Tells what happens to calls and holds: by events of the client, and on tracing channels of the process. Nothing is built while nobody
// listens.

import {
  type Channel,
  channel,
  tracingChannel,
  type TracingChannel,
} from 'node:diagnostics_channel';
import {
  type AcquireMessage,
  CHANNELS,
  type HoldMessage,
  type Refusal,
  type Via,
} from '../api/channels.js';
import {
  ClosedError,
  HoldfastError,
  LockAbortedError,
  LockTimeoutError,
  QuorumError,
  UnavailableError,
} from '../api/errors.js';
import type { Events, RefusedEvent } from '../api/events.js';
import { outsideScopes } from '../scopes/scope.js';

/** A client, as its messages name it. */
interface Teller {
  readonly clientId: string;
  readonly events: Events;
}

/** The acquisition or hold that a message is about. */
interface About {
  readonly lockName: string;
  readonly kind: string;
  readonly label: string | undefined;
}

const acquiring = tracingChannel<unknown, object>(CHANNELS.acquire);
const holding = tracingChannel<unknown, object>(CHANNELS.hold);
const waiting = channel(CHANNELS.waiting);

/** Something that began: the part that has run so far was synchronous. */
function begin<Message extends object>(
  tracing: TracingChannel<unknown, object>,
  message: Message,
): Message {
  publish(tracing.start, message);
  publish(tracing.end, message);
  return message;
}

function end(tracing: TracingChannel<unknown, object>, message: object, hasFailed: boolean): void {
  if (hasFailed) publish(tracing.error, message);
  publish(tracing.asyncStart, message);
  publish(tracing.asyncEnd, message);
}

/** Outside all scopes, so that a subscriber that takes a lock does not take it for the caller. */
function publish(to: Channel, message: object): void {
  if (to.hasSubscribers)
    outsideScopes(() => {
      to.publish(message);
    });
}

/** Whether anybody subscribes to the channels of calls. */
export function areCallsHeard(): boolean {
  return acquiring.hasSubscribers || waiting.hasSubscribers;
}

/** A call begins to acquire a lock. */
export function acquireBegins(
  { clientId }: Teller,
  { lockName, kind, label }: About,
  waitId: string,
): AcquireMessage {
  return begin(acquiring, { clientId, lockName, kind, label, waitId });
}

export function acquireWaits(message: AcquireMessage, holder: string): void {
  message.holder = holder;
  publish(waiting, message);
}

/** What is known of a call when it ends. */
export interface Ended {
  readonly attempts: number;
  readonly tookMs: number;
}

export function acquireEnds(message: AcquireMessage, ended: Ended & { readonly via: Via }): void {
  end(acquiring, Object.assign(message, ended, { outcome: 'acquired' }), false);
}

/** A call ends without its lock. `waitId`: of a call that has waited. */
export function acquireFails(
  { events }: Teller,
  { lockName, label }: Omit<About, 'kind'>,
  message: AcquireMessage | undefined,
  { attempts, tookMs }: Ended,
  error: unknown,
  waitMs: number,
  waitId: string | undefined,
): void {
  const reason = refusalOf(error, waitMs);
  const code = error instanceof HoldfastError ? error.code : undefined;
  if (message)
    end(
      acquiring,
      Object.assign(message, { attempts, tookMs, outcome: reason, error, code }),
      true,
    );
  events.emit('refused', () => {
    const event: RefusedEvent = { lockName, reason, waitedMs: Math.round(tookMs), attempts, error };
    if (waitId !== undefined) event.waitId = waitId;
    if (label !== undefined) event.label = label;
    if (code !== undefined) event.code = code;
    if (error instanceof LockTimeoutError && error.holder !== undefined)
      event.holder = error.holder;
    return event;
  });
}

function refusalOf(error: unknown, waitMs: number): Refusal {
  if (error instanceof LockTimeoutError) return waitMs === 0 ? 'not-free' : 'timeout';
  if (error instanceof LockAbortedError) return 'aborted';
  if (error instanceof ClosedError) return 'closed';
  if (error instanceof UnavailableError || error instanceof QuorumError) return 'unavailable';
  return 'error';
}

/** Whether anybody subscribes to the channel of holds. */
export function areHoldsHeard(): boolean {
  return holding.hasSubscribers;
}

/** A hold begins. */
export function holdBegins(
  { clientId }: Teller,
  { lockName, kind, label }: About,
  via: Via,
  hold: Pick<HoldMessage, 'ownerId' | 'holdId' | 'token'>,
): HoldMessage {
  const { ownerId, holdId, token } = hold;
  return begin(holding, { clientId, lockName, kind, label, ownerId, holdId, via, token });
}

export function holdEnds(
  message: HoldMessage,
  heldForMs: number,
  loss?: HoldMessage['error'],
): void {
  message.heldForMs = heldForMs;
  message.end = loss ? 'lost' : 'released';
  if (loss) Object.assign(message, { lossReason: loss.lossReason, error: loss });
  end(holding, message, loss !== undefined);
}
