// Clients of this library for tests: quick ones on the shared server, and what their events told.
import { inject } from 'vitest';
import { Holdfast, type HoldfastEvents, type HoldfastOptions } from '../../src/index.js';

/** A client whose default lease is 900 ms; other options as given. */
export function newClient(options: Partial<HoldfastOptions> = {}): Holdfast {
  return new Holdfast({ redis: inject('redisUrl'), lockWatchdogTimeout: 900, ...options });
}

export type EventOf<Name extends keyof HoldfastEvents> = Parameters<HoldfastEvents[Name]>[0];

/** All events of this name from now on, in order; the array grows. */
export function eventsOf<Name extends keyof HoldfastEvents>(
  client: Holdfast,
  name: Name,
): EventOf<Name>[] {
  const events: EventOf<Name>[] = [];
  const listener = (event: EventOf<Name>): void => void events.push(event);
  client.on(name, listener);
  return events;
}

/** The next event of this name. */
export function nextEvent<Name extends keyof HoldfastEvents>(
  client: Holdfast,
  name: Name,
): Promise<EventOf<Name>> {
  return new Promise((resolve) => {
    client.once(name, resolve);
  });
}

/** What a promise was rejected with; throws if it was not. */
export async function rejectionOf(promise: Promise<unknown>): Promise<unknown> {
  let value: unknown;
  try {
    value = await promise;
  } catch (error) {
    return error;
  }
  throw new Error(`it did not reject, but resolved to ${String(value)}`);
}
