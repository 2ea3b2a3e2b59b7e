// What a test left behind: on the shared server, and in this process.
import type { Redis } from 'ioredis';
import { createHook } from 'node:async_hooks';
import { subscribe } from 'node:diagnostics_channel';
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { nameToken } from './unique-name.js';

/** What is open in this process at one moment. */
export interface ProcessState {
  readonly sockets: ReadonlySet<Socket>;
  readonly timers: ReadonlySet<NodeJS.Timeout>;
  readonly resources: ReadonlyMap<string, number>;
}

export function processState(): ProcessState {
  const resources = new Map<string, number>();
  for (const kind of process.getActiveResourcesInfo()) {
    if (WATCHED_KINDS.has(kind)) resources.set(kind, (resources.get(kind) ?? 0) + 1);
  }
  return { sockets: new Set(openSockets), timers: new Set(activeTimers().keys()), resources };
}

/** A client that stays open keeps a channel for 2.5 s at most after its last listener has left. */
const GRACE_MS = 5_000;

/** A key that goes later than this went by its lease, which is no way of leaving nothing behind. (No test has leases so short.) */
const KEYS_GRACE_MS = 500;

/**
 * Waits up to `graceMs` for everything beyond `before` to go; describes what stayed, one line each.
 * Keys and channels are those with a name from uniqueName(), so tests in other processes do not matter.
 */
export async function leftovers(
  redis: Redis,
  before: ProcessState,
  graceMs = GRACE_MS,
): Promise<string[]> {
  const startedAtMs = performance.now();
  const outlived = new Set<string>();
  for (;;) {
    const keys = await keysLeft(redis);
    const waitedMs = performance.now() - startedAtMs;
    // (Who was forced out of a lock is told so until the lease would have ended.)
    const owed = keys.filter((key) => !key.startsWith('holdfast_forced'));
    if (waitedMs > Math.min(KEYS_GRACE_MS, graceMs)) for (const key of owed) outlived.add(key);
    const found = [...(await channelsOnServer(redis)), ...inProcess(before)];
    const isOver = waitedMs > graceMs || (found.length === 0 && keys.length === 0);
    if (isOver)
      return [...[...new Set([...outlived, ...keys])].map((key) => `key ${key}`), ...found];
    await sleep(20);
  }
}

/** Deletes the keys with names from uniqueName(), so that one test's leftovers fail only that test. */
export async function deleteLeftoverKeys(redis: Redis): Promise<void> {
  const keys = await leftoverKeys(redis);
  if (keys.length > 0) await redis.del(...keys);
}

async function channelsOnServer(redis: Redis): Promise<string[]> {
  const pattern = `*${nameToken}*`;
  const channels = (await redis.pubsub('CHANNELS', pattern)) as string[];
  const sharded = (await redis.pubsub('SHARDCHANNELS', pattern).catch(() => [])) as string[];
  return [...channels, ...sharded].map((channel) => `subscription to ${channel}`);
}

async function keysLeft(redis: Redis): Promise<string[]> {
  const left: string[] = [];
  for (const key of await leftoverKeys(redis))
    if (!(await isRememberedToken(redis, key))) left.push(key);
  return left;
}

/** The last fencing token of a lock is to outlive it, but not for ever: a test that has it so deletes it. */
async function isRememberedToken(redis: Redis, key: string): Promise<boolean> {
  if (!key.startsWith('redisson_lock_token:')) return false;
  const last = await redis.get(key).catch(() => null); // of another type: no token
  return last !== null && /^\d{16}$/.test(last) && (await redis.pttl(key)) > 0;
}

async function leftoverKeys(redis: Redis): Promise<string[]> {
  const keys: string[] = [];
  for await (const page of redis.scanStream({ match: `*${nameToken}*`, count: 1_000 })) {
    keys.push(...(page as string[]));
  }
  return keys;
}

function inProcess(before: ProcessState): string[] {
  const now = processState();
  const sockets = [...now.sockets]
    .filter((socket) => !before.sockets.has(socket) && isTcp(socket))
    .map(
      (socket) => `open connection to ${socket.remoteAddress ?? '?'}:${socket.remotePort ?? '?'}`,
    );
  const timers = [...activeTimers()]
    .filter(([timer]) => !before.timers.has(timer))
    .map(([, origin]) => `timer set ${origin}`);
  const resources = [...now.resources]
    .map(([kind, count]) => ({ kind, more: count - (before.resources.get(kind) ?? 0) }))
    .filter(({ more }) => more > 0)
    .map(({ kind, more }) => `${more} more active ${kind}`);
  return [...sockets, ...timers, ...resources];
}

// A connection to the Docker engine's Unix socket may stay: it is kept alive for the next call.
function isTcp(socket: Socket): boolean {
  return socket.connecting || socket.remoteAddress !== undefined;
}

const WATCHED_KINDS = new Set(['TCPServerWrap', 'ProcessWrap']);

const openSockets = new Set<Socket>();
subscribe('net.client.socket', (message) => {
  const { socket } = message as { socket: Socket };
  openSockets.add(socket);
  socket.once('close', () => openSockets.delete(socket));
});

// All timers of this process that are still to fire, unref'd ones included, and where they were set. Not those of alarms at
// rest, which an open client keeps for whoever comes next, and which keep no process alive.

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
  const outside = frames.find(
    (frame) => !/node:|support\/leftovers\.ts|\/src\/runtime\/clock/.test(frame),
  );
  return outside?.trim() ?? 'by Node';
}

// Node keeps this in the timer; there is no public question for it.
function isOver(timer: NodeJS.Timeout): boolean {
  return (timer as unknown as { _destroyed: boolean })._destroyed;
}
