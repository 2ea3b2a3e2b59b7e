// Events: built only for somebody, told outside all scopes, and no listener breaks the lock that tells.
import { afterEach, expect, it, vi } from 'vitest';
import { UnavailableError } from '../../src/errors.js';
import { Events } from '../../src/events.js';
import { currentScope, Scope } from '../../src/scope.js';
import { settle } from '../support/occupancy.js';

const WARNING = { message: 'careful', lockName: 'a' };

afterEach(() => {
  vi.restoreAllMocks();
});

it('an event without listener is not even built; an `error` without listener is dropped', () => {
  const describe = vi.fn(() => ({ error: new UnavailableError('down') }));
  new Events().tell('error', describe);
  expect(describe).not.toHaveBeenCalled();
});

it('a listener that throws, or rejects, is reported, and the others hear the event', async () => {
  const emitted = vi.spyOn(process, 'emitWarning').mockReturnValue();
  const events = new Events();
  const heard = vi.fn();
  events.on('warning', () => {
    throw new Error('thrown');
  });
  const rejecting: () => unknown = () => Promise.reject(new Error('rejected'));
  events.on('warning', rejecting);
  events.on('warning', heard);
  events.tell('warning', () => WARNING);
  await settle();
  expect(heard).toHaveBeenCalledExactlyOnceWith(WARNING);
  const messages = emitted.mock.calls.map(([message]) => String(message));
  expect(messages).toHaveLength(2);
  expect(messages[0]).toMatch(/"warning".*thrown/);
  expect(messages[1]).toMatch(/"warning".*rejected/);
});

it('once hears one event, off none', () => {
  const events = new Events();
  const once = vi.fn();
  const off = vi.fn();
  events.once('warning', once);
  events.on('warning', off);
  events.off('warning', off);
  for (let times = 0; times < 2; times++) events.tell('warning', () => WARNING);
  expect(once).toHaveBeenCalledOnce();
  expect(off).not.toHaveBeenCalled();
});

it('a listener runs outside all scopes: what it locks is not the teller’s', () => {
  const events = new Events();
  const scopes: unknown[] = [];
  events.on('warning', () => scopes.push(currentScope()));
  new Scope(undefined, true).run(() => {
    events.tell('warning', () => WARNING);
    expect(currentScope()).toBeDefined();
  });
  expect(scopes).toEqual([undefined]);
});
