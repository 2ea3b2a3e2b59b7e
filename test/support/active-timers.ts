// All timers of this process that are still to fire, unref'd ones included, and where they were set. Not those of alarms at
// rest, which an open client keeps for whoever comes next, and which keep no process alive.
import { createHook } from 'node:async_hooks';

/** Timers set by code of this repository or its dependencies, but not by the tests' own machinery. */
export function activeTimers(): Map<NodeJS.Timeout, string> {
  return new Map([...timersOfOurs()].filter(([timer, origin]) => !isAtRest(timer, origin)));
}

/** Those of alarms at rest: only of clients that are open. */
export function restingTimers(): Map<NodeJS.Timeout, string> {
  return new Map([...timersOfOurs()].filter(([timer, origin]) => isAtRest(timer, origin)));
}

function timersOfOurs(): Map<NodeJS.Timeout, string> {
  for (const timer of timers.keys()) if (isOver(timer)) timers.delete(timer);
  return new Map([...timers].filter(([, origin]) => !MACHINERY.test(origin)));
}

function isAtRest(timer: NodeJS.Timeout, origin: string): boolean {
  return origin.includes('/src/') && !timer.hasRef();
}

// A timer without a caller is one of Node's own, such as that of a kept-alive connection.
// ioredis gives a socket that it closes two seconds, and version 5 does not clear that timer when it is closed.
const MACHINERY =
  /^by Node$|node_modules\/(vitest|@vitest|vite)\/|\/test\/support\/|\/ioredis5?\/built\/connectors\//;

const timers = new Map<NodeJS.Timeout, string>();

// Without a `destroy` hook, which would make every promise slower.
createHook({
  init(_id, type, _trigger, resource) {
    if (type === 'Timeout') timers.set(resource as NodeJS.Timeout, callerOutsideNode());
  },
}).enable();

function callerOutsideNode(): string {
  const frames = new Error().stack?.split('\n').slice(2) ?? [];
  const outside = frames.find((frame) => !/node:|active-timers|\/src\/runtime\/clock/.test(frame));
  return outside?.trim() ?? 'by Node';
}

// Node keeps this in the timer; there is no public question for it.
function isOver(timer: NodeJS.Timeout): boolean {
  return (timer as unknown as { _destroyed: boolean })._destroyed;
}
