// Metrics and spans for OpenTelemetry: a subscriber of holdfast's channels (`CHANNELS`), and nothing else.

import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import {
  type Attributes,
  type Context,
  context,
  diag,
  type Meter,
  type MeterProvider,
  metrics,
  type Span,
  SpanStatusCode,
  trace,
  type Tracer,
  type TracerProvider,
} from '@opentelemetry/api';
import {
  type AcquireMessage,
  CHANNELS,
  type ConnectionMessage,
  type HandedOverMessage,
  type HoldMessage,
  type LockMessage,
  type LostMessage,
  type RenewedMessage,
} from '../api/channels.js';
import { parseFunction, parseOptions, shown } from '../api/options.js';
import { OptionError } from '../api/errors.js';

/**
 * Options of `instrument()`.
 *
 * @group OpenTelemetry
 */
export interface InstrumentOptions {
  /** Where the metrics go. Default: the global provider. */
  meterProvider?: MeterProvider | undefined;
  /** Where the spans go. Default: the global provider. */
  tracerProvider?: TracerProvider | undefined;
  /**
   * The attribute `holdfast.lock.label` of a lock, by its name: few different texts, such as `orders:{id}`. Undefined, or left out: the lock
   * has none.
   */
  lockLabel?: ((lockName: string) => string | undefined) | undefined;
  /**
   * Which spans: `waits`: of calls that had to wait; `holds`: of those and of holds; `all`: of every call and every hold; `none`. Inside
   * `holds` and `all`, `withLock` runs its function in the span of its hold. Default: `waits`.
   */
  spans?: 'waits' | 'holds' | 'all' | 'none' | undefined;
}

/**
 * Ends the instrumentation.
 *
 * @group OpenTelemetry
 */
export interface Instrumentation extends Disposable {
  /** No metrics and spans any more. Holds and waits that were counted are counted back. */
  stop(): void;
}

const NAME = 'holdfast';

/** In seconds: a lock is acquired within a millisecond or so, and waited for up to minutes. */
const WAIT_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const HOLD_BUCKETS = [...WAIT_BUCKETS, 30, 60, 120, 300, 600];

const SPANS = ['waits', 'holds', 'all', 'none'] as const;

/**
 * Reports the locks of a client, or of all clients of the process, as metrics and spans. It needs `@opentelemetry/api` 1.9 or newer.
 *
 * @param client - whose locks; left out: those of all clients in this process
 * @throws OptionError an option is unknown, or not usable
 * @example
 * ```ts
 * import { instrument } from 'holdfast/opentelemetry';
 *
 * instrument(holdfast, { lockLabel: (name) => name.replace(/\d+/g, '{id}') });
 * ```
 *
 * @group OpenTelemetry
 */
export function instrument(
  client?: { readonly clientId: string },
  options: InstrumentOptions = {},
): Instrumentation {
  const clientId = client?.clientId;
  if (client !== undefined && typeof clientId !== 'string')
    throw new OptionError(
      `what instrument() was given is ${shown(client)}: it must be a Holdfast; options come second`,
    );
  const known = ['meterProvider', 'tracerProvider', 'lockLabel', 'spans'] as const;
  parseOptions('the options of instrument()', options, known);
  const { spans = 'waits', lockLabel } = options;
  if (!SPANS.includes(spans))
    throw new OptionError(`spans is ${shown(spans)}: it must be one of ${SPANS.join(', ')}`);
  if (lockLabel) parseFunction(lockLabel, 'lockLabel');
  return new Subscriber(clientId, options, spans);
}

/** A call as this subscriber saw it begin. */
interface Call {
  /** The context of the caller: spans of this call belong there. */
  readonly context: Context;
  readonly startedAt: Date;
  readonly attributes: Attributes;
  isWaiting: boolean;
}

/** A hold as this subscriber saw it begin. */
interface Held {
  readonly attributes: Attributes;
  readonly span: Span | undefined;
}

/** An error, and what `error.type` calls it. */
interface Failure {
  readonly type: string;
  readonly error: Error;
}

class Subscriber implements Instrumentation {
  readonly #clientId: string | undefined;
  readonly #lockLabel: InstrumentOptions['lockLabel'];
  readonly #spans: (typeof SPANS)[number];
  readonly #tracer: Tracer;
  readonly #instruments: ReturnType<typeof instrumentsOf>;
  /** What is under way, by its message, which is the same object at the start and at the end. */
  readonly #calls = new Map<object, Call>();
  readonly #holds = new Map<object, Held>();
  readonly #subscriptions: [name: string, listener: (message: unknown) => void][] = [];
  #isLabelFailed = false;

  constructor(
    clientId: string | undefined,
    { meterProvider, tracerProvider, lockLabel }: InstrumentOptions,
    spans: (typeof SPANS)[number],
  ) {
    this.#clientId = clientId;
    this.#lockLabel = lockLabel;
    this.#spans = spans;
    this.#tracer = (tracerProvider ?? trace.getTracerProvider()).getTracer(NAME);
    this.#instruments = instrumentsOf((meterProvider ?? metrics.getMeterProvider()).getMeter(NAME));
    // Spans end at `asyncEnd`: `end` comes before the promise settles, and after `error` comes `asyncEnd`, too.
    this.#listen(`tracing:${CHANNELS.acquire}:start`, this.#callBegins);
    this.#listen(CHANNELS.waiting, this.#callWaits);
    this.#listen(`tracing:${CHANNELS.acquire}:asyncEnd`, this.#callEnds);
    this.#listen(`tracing:${CHANNELS.hold}:start`, this.#holdBegins);
    this.#listen(`tracing:${CHANNELS.hold}:asyncEnd`, this.#holdEnds);
    this.#listen(CHANNELS.lost, this.#lost);
    this.#listen(CHANNELS.renewed, this.#renewed);
    this.#listen(CHANNELS.handedOver, this.#handedOver);
    this.#listen(CHANNELS.connection, this.#connectionChanged);
  }

  stop(): void {
    for (const [name, listener] of this.#subscriptions.splice(0)) unsubscribe(name, listener);
    for (const call of this.#calls.values()) this.#noLongerWaits(call);
    for (const { attributes, span } of this.#holds.values()) {
      this.#instruments.holdCount.add(-1, attributes);
      span?.end();
    }
    this.#calls.clear();
    this.#holds.clear();
  }

  [Symbol.dispose](): void {
    this.stop();
  }

  #listen(name: string, listener: (message: never) => void): void {
    const ofClient = (message: unknown): void => {
      const { clientId } = message as LockMessage;
      if (this.#clientId !== undefined && clientId !== this.#clientId) return;
      // What a subscriber throws becomes an uncaught exception: an SDK that fails must not end the process.
      try {
        listener(message as never);
      } catch (error) {
        diag.error(`holdfast: a message of ${name} was not measured`, error);
      }
    };
    this.#subscriptions.push([name, ofClient]);
    subscribe(name, ofClient);
  }

  readonly #callBegins = (message: AcquireMessage): void => {
    this.#calls.set(message, {
      context: context.active(),
      startedAt: new Date(),
      attributes: this.#about(message),
      isWaiting: false,
    });
  };

  readonly #callWaits = (message: AcquireMessage): void => {
    const call = this.#calls.get(message);
    if (!call || call.isWaiting) return;
    call.isWaiting = true;
    this.#instruments.waiterCount.add(1, call.attributes);
  };

  readonly #callEnds = (message: AcquireMessage): void => {
    const call = this.#calls.get(message);
    if (!call) return;
    this.#calls.delete(message);
    const { outcome = 'error', via, tookMs = 0 } = message;
    const attributes: Attributes = { ...call.attributes, 'holdfast.outcome': word(outcome) };
    if (via) attributes['holdfast.via'] = word(via);
    const failure = failureOf(message);
    if (failure) attributes['error.type'] = failure.type;
    this.#instruments.acquireDuration.record(tookMs / 1_000, attributes);
    const isTraced = this.#spans === 'all' || (call.isWaiting && this.#spans !== 'none');
    this.#noLongerWaits(call);
    if (isTraced) this.#waitSpan(message, call, attributes, failure);
  };

  #waitSpan(
    { lockName, label, holder, attempts }: AcquireMessage,
    { startedAt: startTime, context: around }: Call,
    about: Attributes,
    failure: Failure | undefined,
  ): void {
    const attributes: Attributes = { ...about, 'holdfast.lock.name': lockName };
    if (label !== undefined) attributes['holdfast.label'] = label;
    if (holder !== undefined) attributes['holdfast.holder'] = holder;
    if (attempts !== undefined) attributes['holdfast.attempts'] = attempts;
    const span = this.#tracer.startSpan(spanName('wait', about), { startTime, attributes }, around);
    if (failure) fail(span, failure);
    span.end();
  }

  #noLongerWaits(call: Call): void {
    if (call.isWaiting) this.#instruments.waiterCount.add(-1, call.attributes);
    call.isWaiting = false;
  }

  readonly #holdBegins = (message: HoldMessage): void => {
    const attributes = this.#about(message);
    this.#instruments.holdCount.add(1, attributes);
    const isTraced = this.#spans === 'all' || this.#spans === 'holds';
    const span = isTraced ? this.#holdSpan(message, attributes) : undefined;
    this.#holds.set(message, { attributes, span });
  };

  #holdSpan(message: HoldMessage, about: Attributes): Span {
    const { lockName, label, ownerId, via, token } = message;
    const attributes: Attributes = {
      ...about,
      'holdfast.lock.name': lockName,
      'holdfast.owner': ownerId,
      'holdfast.via': word(via),
    };
    if (label !== undefined) attributes['holdfast.label'] = label;
    if (token !== undefined) attributes['holdfast.token'] = String(token);
    const span = this.#tracer.startSpan(spanName('hold', about), { attributes });
    const { runInside } = message; // of another subscriber
    message.runInside = (fn) => {
      // Not the context of the start: the function runs in that of its caller, which may have gone on.
      const inSpan = (): ReturnType<typeof fn> =>
        context.with(trace.setSpan(context.active(), span), fn);
      return runInside ? runInside(inSpan) : inSpan();
    };
    return span;
  }

  readonly #holdEnds = (message: HoldMessage): void => {
    const held = this.#holds.get(message);
    if (!held) return;
    this.#holds.delete(message);
    const { end = 'released', heldForMs = 0, lossReason, error } = message;
    this.#instruments.holdCount.add(-1, held.attributes);
    const attributes = { ...held.attributes, 'holdfast.end': end };
    this.#instruments.holdDuration.record(heldForMs / 1_000, attributes);
    held.span?.setAttribute('holdfast.end', end);
    if (lossReason) held.span?.setAttribute('holdfast.loss.reason', lossReason);
    if (held.span && error) fail(held.span, { type: error.code, error });
    held.span?.end();
  };

  readonly #lost = (message: LostMessage): void => {
    const attributes = this.#about(message);
    attributes['holdfast.loss.reason'] = message.lossReason;
    this.#instruments.losses.add(1, attributes);
  };

  readonly #renewed = ({ outcome, leases }: RenewedMessage): void => {
    this.#instruments.renewals.add(leases, { 'holdfast.renewal.outcome': outcome });
  };

  readonly #handedOver = (message: HandedOverMessage): void => {
    const attributes = { ...this.#about(message), 'holdfast.via': word(message.via) };
    this.#instruments.handOverDuration.record(message.tookMs / 1_000, attributes);
  };

  readonly #connectionChanged = ({ state, connection }: ConnectionMessage): void => {
    if (state !== 'failed') return;
    this.#instruments.connectionFailures.add(1, { 'holdfast.connection': connection });
  };

  /** The attributes of all metrics about locks: the name is none of them, since each name would be a time series of its own. */
  #about({ kind, lockName }: LockMessage): Attributes {
    const attributes: Attributes = { 'holdfast.lock.kind': kind };
    const label = this.#labelOf(lockName);
    if (label !== undefined) attributes['holdfast.lock.label'] = label;
    return attributes;
  }

  #labelOf(lockName: string): string | undefined {
    try {
      const label: unknown = this.#lockLabel?.(lockName);
      if (label === undefined || typeof label === 'string') return label;
      throw new OptionError(`lockLabel returned ${shown(label)}: it must be a text or undefined`);
    } catch (error) {
      // The user's function must not harm the lock.
      if (!this.#isLabelFailed) diag.error('holdfast: lockLabel failed', error);
      this.#isLabelFailed = true;
      return undefined;
    }
  }
}

// (An own type: its inferred one would name each instrument's attributes.)
function instrumentsOf(meter: Meter) {
  const histogram = (name: string, description: string, buckets = WAIT_BUCKETS) =>
    meter.createHistogram(name, {
      unit: 's',
      description,
      advice: { explicitBucketBoundaries: buckets },
    });
  return {
    acquireDuration: histogram(
      'holdfast.acquire.duration',
      'From the call to the lock, or to the refusal',
    ),
    holdDuration: histogram('holdfast.hold.duration', 'How long locks were held', HOLD_BUCKETS),
    handOverDuration: histogram(
      'holdfast.hand_over.duration',
      'From the arrival of a lock that was handed over until its caller has it',
    ),
    losses: meter.createCounter('holdfast.losses', {
      unit: '{loss}',
      description: 'Locks lost while they were held',
    }),
    renewals: meter.createCounter('holdfast.renewals', {
      unit: '{lease}',
      description: 'Leases that the watchdog renewed, or could not',
    }),
    connectionFailures: meter.createCounter('holdfast.connection.failures', {
      unit: '{failure}',
      description: 'Connections to Redis that failed',
    }),
    holdCount: meter.createUpDownCounter('holdfast.hold.count', {
      unit: '{hold}',
      description: 'Holds of this process now',
    }),
    waiterCount: meter.createUpDownCounter('holdfast.waiter.count', {
      unit: '{waiter}',
      description: 'Calls of this process that wait now',
    }),
  };
}

/** `not-free` is `not_free` in attributes. */
function word(text: string): string {
  return text.replaceAll('-', '_');
}

function spanName(what: string, attributes: Attributes): string {
  const label = attributes['holdfast.lock.label'];
  return typeof label === 'string' ? `${NAME} ${what} ${label}` : `${NAME} ${what}`;
}

/** The error of a call that failed; undefined: it got the lock, or another owner had it all the time. */
function failureOf({ outcome, error, code }: AcquireMessage): Failure | undefined {
  if (outcome === 'acquired' || outcome === 'timeout' || outcome === 'not-free') return undefined;
  const given = error instanceof Error ? error : new Error(String(error));
  return { type: code ?? given.name, error: given };
}

function fail(span: Span, { type, error }: Failure): void {
  span.setAttribute('error.type', type);
  span.recordException(error);
  span.setStatus({ code: SpanStatusCode.ERROR, message: error.message });
}
