// Metrics and spans, by the real SDK, of real locks over the server in memory.
import { channel } from 'node:diagnostics_channel';
import { context, diag, SpanStatusCode, trace, type Tracer } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { CHANNELS, Holdfast, type HoldMessage, type Lock } from '../../../src/index.js';
import {
  instrument,
  type Instrumentation,
  type InstrumentOptions,
} from '../../../src/telemetry/opentelemetry.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';
import { nextEvent } from '../../support/clients.js';

let redis: MemoryRedis;
let client: Holdfast;
let other: Holdfast;
let exporter: PrometheusExporter;
let meterProvider: MeterProvider;
let spans: InMemorySpanExporter;
let tracerProvider: BasicTracerProvider;
const started: Instrumentation[] = [];

beforeAll(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
});

afterAll(() => {
  context.disable();
});

beforeEach(() => {
  redis = new MemoryRedis();
  client = new Holdfast({ redis });
  other = new Holdfast({ redis });
  for (const each of [client, other]) each.on('error', () => undefined);
  exporter = new PrometheusExporter({ preventServerStart: true });
  meterProvider = new MeterProvider({ readers: [exporter] });
  spans = new InMemorySpanExporter();
  tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });
});

afterEach(async () => {
  for (const each of started.splice(0)) each.stop();
  await Promise.all([client.close(), other.close()]);
  vi.useRealTimers();
  await meterProvider.shutdown();
  await tracerProvider.shutdown();
});

function start(options: InstrumentOptions = {}, of?: Holdfast): Instrumentation {
  const instrumentation = instrument(of, { meterProvider, tracerProvider, ...options });
  started.push(instrumentation);
  return instrumentation;
}

/** Time passes by `advance()` alone from now on: a client whose process is slow hands nothing over within itself. */
async function freeze(): Promise<void> {
  vi.useFakeTimers({ toFake: ['Date', 'performance'] });
  await redis.advance(0);
}

/** The lines that Prometheus would get, without help and types. */
async function lines(): Promise<string[]> {
  const text = await new Promise<string>((resolve) => {
    const response = { setHeader: () => undefined, statusCode: 0, end: resolve };
    exporter.getMetricsRequestHandler({} as never, response as never);
  });
  return text.split('\n').filter((line) => line.startsWith('holdfast_'));
}

/** The values of a metric by its labels, in the order of the text. */
async function values(name: string): Promise<[labels: string, value: number][]> {
  const all = await lines();
  return all.flatMap((line): [string, number][] => {
    const [, found, labels = '', value] = /^(\w+)\{(.*)\} (\S+)/.exec(line) ?? [];
    if (found !== name) return [];
    const own = labels.split(',').filter((label) => !label.startsWith('otel_scope'));
    return [[own.join(','), Number(value)]];
  });
}

/** A call that begins and ends, as the core publishes it. */
function publishCall(end: object): void {
  const message = { clientId: client.clientId, lockName: 'a', kind: 'Lock' };
  channel(`tracing:${CHANNELS.acquire}:start`).publish(message);
  Object.assign(message, end);
  for (const stage of ['error', 'asyncStart', 'asyncEnd'])
    channel(`tracing:${CHANNELS.acquire}:${stage}`).publish(message);
}

/** Another client has the lock; `client` waits for it and gets it. */
async function waitFor(name: string, label?: string): Promise<void> {
  const hold = await other.getLock(name).acquire();
  const waiting = nextEvent(client, 'waiting');
  const call = client.getLock(name).acquire({ label });
  await waiting;
  await hold.release();
  await (await call).release();
}

describe('metrics', () => {
  it('count calls by kind, outcome and via', async () => {
    start();
    await client.getLock('a').withLock(() => client.getFencedLock('b').withLock(() => undefined));
    await waitFor('a');
    const hold = await other.getLock('a').acquire();
    expect(await client.getLock('a').tryLock()).toBe(false);
    expect(await client.getLock('a').tryLock(5)).toBe(false);
    await hold.release();
    redis.down();
    await expect(client.getLock('a').tryLock()).rejects.toThrow('Redis');
    redis.up();
    const counts = Object.fromEntries(await values('holdfast_acquire_duration_count'));
    const of = (kind: string, outcome: string, more: string): string =>
      `holdfast_lock_kind="${kind}",holdfast_outcome="${outcome}"${more}`;
    expect(counts).toEqual({
      [of('Lock', 'acquired', ',holdfast_via="first_try"')]: 3,
      [of('FencedLock', 'acquired', ',holdfast_via="first_try"')]: 1,
      [of('Lock', 'acquired', ',holdfast_via="message"')]: 1,
      [of('Lock', 'not_free', '')]: 1,
      [of('Lock', 'timeout', '')]: 1,
      [of('Lock', 'unavailable', ',error_type="REDIS_UNAVAILABLE"')]: 1,
    });
  });

  it('are in seconds', async () => {
    start();
    const hold = await client.getLock('a').acquire({ lease: 600_000 });
    await redis.advance(90_000);
    await hold.release();
    const [[, sum] = []] = await values('holdfast_hold_duration_sum');
    expect(sum).toBeGreaterThanOrEqual(90);
    expect(sum).toBeLessThan(100);
    const buckets = await values('holdfast_hold_duration_bucket');
    expect(buckets.map(([labels, count]) => [/le="(.*)"/.exec(labels)?.[1], count])).toEqual(
      expect.arrayContaining([
        ['60', 0],
        ['120', 1],
        ['600', 1],
      ]),
    );
  });

  it('count holds and waiters up and down', async () => {
    start();
    const hold = await client.getLock('a').acquire();
    const waiting = nextEvent(other, 'waiting');
    const call = other.getLock('a').acquire();
    await waiting;
    const lock = 'holdfast_lock_kind="Lock"';
    expect(await values('holdfast_hold_count')).toEqual([[lock, 1]]);
    expect(await values('holdfast_waiter_count')).toEqual([[lock, 1]]);
    await hold.release();
    const next = await call;
    expect(await values('holdfast_hold_count')).toEqual([[lock, 1]]);
    expect(await values('holdfast_waiter_count')).toEqual([[lock, 0]]);
    await next.release();
    expect(await values('holdfast_hold_count')).toEqual([[lock, 0]]);
  });

  it('count losses, renewals and hand-overs', async () => {
    await freeze();
    start();
    const hold = await client.getLock('a').acquire();
    const waiting = nextEvent(client, 'waiting');
    const call = client.getLock('a').acquire();
    await waiting;
    await hold.release();
    const next = await call;
    await redis.advance(11_000);
    await client.getLock('a').forceUnlock();
    await expect(next.release()).rejects.toMatchObject({ code: 'LOCK_LOST' });
    const lock = 'holdfast_lock_kind="Lock"';
    expect(await values('holdfast_renewals_total')).toEqual([
      ['holdfast_renewal_outcome="kept"', 1],
    ]);
    expect(await values('holdfast_hand_over_duration_count')).toEqual([
      [`${lock},holdfast_via="local"`, 1],
    ]);
    expect(await values('holdfast_losses_total')).toEqual([
      [`${lock},holdfast_loss_reason="forced"`, 1],
    ]);
    expect(await values('holdfast_hold_duration_count')).toEqual([
      [`${lock},holdfast_end="released"`, 1],
      [`${lock},holdfast_end="lost"`, 1],
    ]);
  });

  it('have no name of a lock, but the label that the user gives it', async () => {
    start({ lockLabel: (name) => (name.startsWith('orders:') ? 'orders:{id}' : undefined) });
    await client.getLock('orders:42').withLock(() => undefined);
    await client.getLock('secret-7').withLock(() => undefined);
    const text = (await lines()).join('\n');
    expect(text).toContain('holdfast_lock_label="orders:{id}"');
    expect(text).not.toContain('orders:42');
    expect(text).not.toContain('secret-7');
  });

  it.each([
    [
      'throws',
      () => {
        throw new Error('no label');
      },
    ],
    ['returns no text', (() => 42) as never],
  ])('go on without labels, said once, if the function %s', async (_, lockLabel) => {
    const said = vi.spyOn(diag, 'error').mockImplementation(() => undefined);
    start({ lockLabel });
    await client.getLock('a').withLock(() => undefined);
    expect(said).toHaveBeenCalledTimes(1);
    const counts = await values('holdfast_acquire_duration_count');
    expect(counts).toEqual([[expect.not.stringContaining('label'), 1]]);
  });

  it('count connections that failed', async () => {
    start({}, client);
    await client.getLock('a').isLocked();
    const failed = nextEvent(client, 'error');
    redis.down();
    await failed;
    redis.up();
    expect(await values('holdfast_connection_failures_total')).toEqual([
      ['holdfast_connection="commands"', 1],
    ]);
  });

  it('count a call that failed with an error of the caller by its class', async () => {
    start();
    class OutOfPatience extends Error {
      override name = 'OutOfPatience';
    }
    publishCall({ outcome: 'error', error: new OutOfPatience() });
    publishCall({ outcome: 'error', error: 'a text' });
    const counts = await values('holdfast_acquire_duration_count');
    const labels = counts.map(([each]) => /error_type="(.*)"/.exec(each)?.[1]);
    expect(labels).toEqual(['OutOfPatience', 'Error']);
  });

  it('are those of one client, if it is given', async () => {
    start({}, client);
    await client.getLock('a').withLock(() => undefined);
    await other.getFairLock('a').withLock(() => undefined);
    const counts = await values('holdfast_acquire_duration_count');
    expect(counts.map(([labels]) => labels)).toEqual([
      'holdfast_lock_kind="Lock",holdfast_outcome="acquired",holdfast_via="first_try"',
    ]);
  });

  it('never go below zero for what began before, and back to zero at the end', async () => {
    const before = await client.getLock('a').acquire();
    const instrumentation = start();
    await before.release();
    const hold = await client.getLock('a').acquire();
    const waiting = nextEvent(other, 'waiting');
    const call = other.getLock('a').acquire();
    await waiting;
    expect(await values('holdfast_hold_count')).toMatchObject([[expect.any(String), 1]]);
    instrumentation.stop();
    expect(await values('holdfast_hold_count')).toMatchObject([[expect.any(String), 0]]);
    expect(await values('holdfast_waiter_count')).toMatchObject([[expect.any(String), 0]]);
    await hold.release();
    await (await call).release();
    expect(await values('holdfast_acquire_duration_count')).toMatchObject([
      [expect.any(String), 1],
    ]);
  });
});

describe('spans', () => {
  const finished = (): ReadableSpan[] => spans.getFinishedSpans();

  it('are made of calls that waited, as children of the caller', async () => {
    start();
    const tracer = tracerProvider.getTracer('test');
    await client.getLock('a').withLock(() => undefined);
    await tracer.startActiveSpan('request', async (span) => {
      await waitFor('a', 'a report');
      span.end();
    });
    const [wait, request] = finished();
    expect(finished()).toHaveLength(2);
    expect(wait!.name).toBe('holdfast wait');
    expect(wait!.parentSpanContext?.spanId).toBe(request!.spanContext().spanId);
    expect(wait!.attributes).toMatchObject({
      'holdfast.lock.name': 'a',
      'holdfast.lock.kind': 'Lock',
      'holdfast.label': 'a report',
      'holdfast.outcome': 'acquired',
      'holdfast.via': 'message',
      'holdfast.holder': expect.stringMatching(new RegExp(`^${other.clientId}:`)) as string,
    });
    expect(wait!.status.code).toBe(SpanStatusCode.UNSET);
  });

  it('fail with an error, but not with a timeout', async () => {
    start();
    const hold = await other.getLock('a').acquire();
    expect(await client.getLock('a').tryLock(5)).toBe(false);
    const aborter = new AbortController();
    const waiting = nextEvent(client, 'waiting');
    const call = client.getLock('a').acquire({ signal: aborter.signal });
    await waiting;
    aborter.abort();
    await expect(call).rejects.toMatchObject({ code: 'LOCK_ABORTED' });
    await hold.release();
    const statuses = finished().map(({ status }) => status.code);
    expect(statuses).toEqual([SpanStatusCode.UNSET, SpanStatusCode.ERROR]);
    expect(finished()[1]!.events.map(({ name }) => name)).toEqual(['exception']);
  });

  it('of holds have the function of withLock inside them', async () => {
    start({ spans: 'holds', lockLabel: () => 'a' });
    let inside: string | undefined;
    await client.getLock('a').withLock(() => {
      inside = trace.getActiveSpan()?.spanContext().spanId;
    });
    const lost = await client.getLock('a').acquire();
    await client.getLock('a').forceUnlock();
    expect(lost.signal.aborted).toBe(true);
    const [first, second, ...others] = finished();
    expect(others).toEqual([]);
    expect(first!.name).toBe('holdfast hold a');
    expect(first!.spanContext().spanId).toBe(inside);
    expect(first!.attributes).toMatchObject({ 'holdfast.end': 'released' });
    expect(second!.status.code).toBe(SpanStatusCode.ERROR);
    expect(second!.attributes).toMatchObject({
      'holdfast.end': 'lost',
      'holdfast.loss.reason': 'forced',
      'error.type': 'LOCK_LOST',
    });
  });

  it('of holds have their caller as parent, however the lock was got', async () => {
    await freeze();
    start({ spans: 'holds' });
    const tracer = tracerProvider.getTracer('test');
    const callers: string[] = [];
    const call = (lock: Lock, work?: () => Promise<unknown>): Promise<void> =>
      tracer.startActiveSpan('caller', async (span) => {
        callers.push(span.spanContext().spanId);
        await lock.withLock(async () => {
          await work?.();
        });
        span.end();
      });
    for (const [first, second, waiter] of [
      [client.getLock('a'), client.getLock('a'), client],
      [client.getLock('a'), other.getLock('a'), other],
      [client.getFairLock('b'), other.getFairLock('b'), other],
    ] as const) {
      const waiting = nextEvent(waiter, 'waiting');
      await Promise.all([call(first, () => waiting), call(second)]);
    }
    const holds = finished().filter(({ name }) => name === 'holdfast hold');
    expect(holds.map(({ parentSpanContext }) => parentSpanContext?.spanId)).toEqual(callers);
    expect(holds.map(({ attributes }) => attributes['holdfast.via'])).toEqual([
      ...['first_try', 'local', 'first_try', 'message', 'first_try', 'hand_over'],
    ]);
  });

  it('of holds leave what another subscriber has set around the function', () => {
    start({ spans: 'holds' });
    const around: (string | undefined)[] = [];
    const message = {
      clientId: client.clientId,
      lockName: 'a',
      kind: 'Lock',
      via: 'first-try',
      runInside: (fn) => {
        around.push('theirs');
        return fn();
      },
    } as HoldMessage;
    channel(`tracing:${CHANNELS.hold}:start`).publish(message);
    const result = message.runInside?.(() => {
      around.push(trace.getActiveSpan() && 'ours');
      return 42;
    });
    expect([result, around]).toEqual([42, ['theirs', 'ours']]);
  });

  it('disturb no lock if the SDK fails', async () => {
    const said = vi.spyOn(diag, 'error').mockImplementation(() => undefined);
    const failing = {
      startSpan: () => {
        throw new Error('no span');
      },
    } as unknown as Tracer;
    start({ spans: 'all', tracerProvider: { getTracer: () => failing } });
    expect(await client.getLock('a').withLock(() => 42)).toBe(42);
    expect(said).toHaveBeenCalledWith(expect.stringContaining(CHANNELS.hold), expect.any(Error));
  });

  it.each([
    ['all', ['holdfast hold', 'holdfast wait']],
    ['none', []],
  ] as const)('are of %s', async (which, names) => {
    start({ spans: which });
    await client.getLock('a').withLock(() => undefined);
    expect(
      finished()
        .map(({ name }) => name)
        .sort(),
    ).toEqual(names);
  });
});

describe('instrument()', () => {
  it.each([
    [{ span: 'all' }, 'have no "span"'],
    [{ spans: 'some' }, "spans is 'some'"],
    [{ lockLabel: 'x' }, "lockLabel is 'x'"],
  ])('refuses %j', (options, message) => {
    expect(() => instrument(undefined, options as never)).toThrow(message);
  });

  it('refuses options in place of a client', () => {
    expect(() => instrument({ spans: 'all' } as never)).toThrow('it must be a Holdfast');
  });
});
