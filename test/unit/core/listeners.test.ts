// Listeners: events are built only when somebody listens, are emitted outside all scopes, and a failing listener does not break the lock.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { UnavailableError } from '../../../src/api/errors.js';
import { Listeners } from '../../../src/core/events.js';
import { currentScope, Scope } from '../../../src/scopes/scope.js';
import { settle } from '../../support/occupancy.js';

const WARNING = { message: 'careful', lockName: 'a' };

afterEach(() => {
  vi.restoreAllMocks();
});

it('an event without a listener is not even built', () => {
  const describe = vi.fn(() => WARNING);
  new Listeners().emit('warning', describe);
  expect(describe).not.toHaveBeenCalled();
});

describe('an `error` without a listener', () => {
  let warnings: string[];
  let events: Listeners;

  beforeEach(() => {
    warnings = [];
    vi.spyOn(process, 'emitWarning').mockImplementation((warning) => {
      warnings.push(String(warning));
    });
    events = new Listeners();
  });

  function fail(message: string): void {
    events.emit('error', () => ({ error: new UnavailableError(message) }));
  }

  it('becomes a process warning that says how to listen for errors', () => {
    fail('it is down');
    expect(warnings).toEqual([expect.stringMatching(/^it is down .*holdfast\.on\('error', …\)/)]);
  });

  it('becomes one warning for each outage, whatever fails, on whichever connection', () => {
    for (let outages = 1; outages <= 3; outages++) {
      events.outage('commands', true);
      fail('the commands connection failed: refused');
      events.outage('commands', true);
      events.outage('subscriber', true);
      fail('the subscriber connection failed: refused');
      fail('a release failed');
      events.outage('commands', false);
      fail('a renewal failed');
      events.outage('subscriber', false);
      expect(warnings).toHaveLength(outages);
    }
  });

  it('becomes one warning for each other kind of failure, whatever the numbers in its message', () => {
    for (const lock of ['a', 'b']) {
      fail(`cannot subscribe to ${lock}`);
      fail('renewal of 5 leases was not answered after 44.4 ms');
      fail('renewal of 61 leases was not answered after 120 ms');
    }
    expect(warnings).toHaveLength(3);
    for (let count = 0; count < 100; count++) fail('x'.repeat(count));
    expect(warnings).toHaveLength(20);
    events.outage('commands', true);
    fail('refused');
    events.outage('commands', false);
    fail('cannot subscribe to a');
    expect(warnings).toHaveLength(22);
  });

  it('becomes no warning when there is a listener', () => {
    const heard = vi.fn();
    events.on('error', heard);
    fail('it is down');
    expect(heard).toHaveBeenCalledOnce();
    expect(warnings).toEqual([]);
  });
});

it('a listener that throws or rejects is reported, and the other listeners receive the event', async () => {
  const emitted = vi.spyOn(process, 'emitWarning').mockReturnValue();
  const events = new Listeners();
  const heard = vi.fn();
  events.on('warning', () => {
    throw new Error('thrown');
  });
  const rejecting: () => unknown = () => Promise.reject(new Error('rejected'));
  events.on('warning', rejecting);
  events.on('warning', heard);
  events.emit('warning', () => WARNING);
  await settle();
  expect(heard).toHaveBeenCalledExactlyOnceWith(WARNING);
  const messages = emitted.mock.calls.map(([message]) => String(message));
  expect(messages).toHaveLength(2);
  expect(messages[0]).toMatch(/"warning".*thrown/);
  expect(messages[1]).toMatch(/"warning".*rejected/);
});

describe('a listener that fails at each event', () => {
  let warnings: string[];
  let events: Listeners;

  beforeEach(() => {
    warnings = [];
    vi.spyOn(process, 'emitWarning').mockImplementation((warning) => {
      warnings.push(String(warning));
    });
    events = new Listeners();
  });

  it('is reported once for each message, and with its count when the client is closed', async () => {
    let count = 0;
    events.on('warning', () => {
      throw new Error(`no room for ${String(count++)}`);
    });
    const rejecting: (() => unknown)[] = [
      () => Promise.reject(new Error('rejected')),
      () => Promise.reject(Object.create(null) as Error),
    ];
    for (const listener of rejecting) events.on('warning', listener);
    for (let times = 0; times < 3_000; times++) events.emit('warning', () => WARNING);
    await settle();
    expect(warnings).toEqual([
      expect.stringMatching(/"warning" failed: Error: no room for 0\n/),
      expect.stringMatching(/"warning" failed: Error: rejected\n/),
      expect.stringMatching(/"warning" failed: \[Object: null prototype\]/),
    ]);
    events.closed();
    events.closed();
    expect(warnings.slice(3)).toEqual(
      Array(3).fill('a listener of "warning" failed 3000 times while its client was open'),
    );
  });

  it('is reported for each of its messages, at most twenty, and without a count if that was all', () => {
    let words = '';
    events.on('warning', () => {
      throw new Error((words += 'x'));
    });
    for (let times = 0; times < 20; times++) events.emit('warning', () => WARNING);
    events.closed();
    expect(warnings).toHaveLength(20);
    for (let times = 0; times < 2; times++) events.emit('warning', () => WARNING);
    events.closed();
    expect(warnings).toHaveLength(21);
  });
});

it('once() receives one event, and off() stops them', () => {
  const events = new Listeners();
  const once = vi.fn();
  const off = vi.fn();
  events.once('warning', once);
  events.on('warning', off);
  events.off('warning', off);
  for (let times = 0; times < 2; times++) events.emit('warning', () => WARNING);
  expect(once).toHaveBeenCalledOnce();
  expect(off).not.toHaveBeenCalled();
});

it('a listener runs outside all scopes: the locks it takes do not belong to the emitter', () => {
  const events = new Listeners();
  const scopes: unknown[] = [];
  events.on('warning', () => scopes.push(currentScope()));
  new Scope(undefined, true).run(() => {
    events.emit('warning', () => WARNING);
    expect(currentScope()).toBeDefined();
  });
  expect(scopes).toEqual([undefined]);
});

it.each(['lockLost', 'close', '', 'toString', undefined])(
  'there is no event %j: its listener would never be called',
  (name) => {
    const listeners = new Listeners();
    for (const method of ['on', 'once', 'off'] as const)
      expect(() => {
        listeners[method](name as 'lost', () => undefined);
      }).toThrow(/^the name of an event is .*: it must be one of acquired, .*, lost, /);
  },
);

it('a listener that is no function is refused', () => {
  expect(() => {
    new Listeners().on('lost', undefined as never);
  }).toThrow('the listener of "lost" is undefined: it must be a function');
});
