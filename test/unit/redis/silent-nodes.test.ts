// Single nodes of a cluster that fall silent, as ioredis shows them.
import type { Cluster, Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { IoredisNodes } from '../../../src/redis/ioredis/nodes.js';
import { SilentNodes } from '../../../src/redis/silent-nodes.js';

const LIMITS = { silenceLimitMs: 1_000, longestSilenceMs: 3_000 };

/** A connection to a node; what it has said is counted in bytes. */
class FakeNode {
  status = 'ready';
  commandQueue = { length: 0 };
  stream = { bytesRead: 100 };
  readonly options: { host: string; port: number };

  constructor(port: number) {
    this.options = { host: 'node', port };
  }

  disconnect(): void {
    this.status = 'end';
  }
}

describe('a node of a cluster', () => {
  let nodes: FakeNode[];
  let told: string[];
  let silentNodes: SilentNodes;

  beforeEach(() => {
    vi.useFakeTimers();
    nodes = [new FakeNode(1), new FakeNode(2)];
    told = [];
    const cluster = { nodes: () => nodes as unknown as Redis[] } as unknown as Cluster;
    silentNodes = new SilentNodes(new IoredisNodes(cluster, vi.fn()), LIMITS, ({ message }) =>
      told.push(message),
    );
  });

  afterEach(() => {
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
  });

  function expectAnswer(node: FakeNode): void {
    node.commandQueue.length = 1;
    silentNodes.asked();
  }

  it('that leaves a command unanswered is left, and no other', async () => {
    expectAnswer(nodes[0]!);
    const answering = setInterval(() => (nodes[1]!.stream.bytesRead += 10), 100);
    nodes[1]!.commandQueue.length = 1;
    await vi.advanceTimersByTimeAsync(2_000);
    clearInterval(answering);
    expect(nodes.map(({ status }) => status)).toEqual(['end', 'ready']);
    expect(told).toEqual(['no answer from node:1 within 1000 ms']);
    nodes[1]!.commandQueue.length = 0;
    await vi.advanceTimersByTimeAsync(1_000);
  });

  it.each(['connecting', 'connect'])('that stays "%s" is left', async (status) => {
    nodes[0]!.status = status;
    silentNodes.asked();
    await vi.advanceTimersByTimeAsync(2_000);
    expect(nodes[0]!.status).toBe('end');
  });

  it('of which nothing is expected may be silent', async () => {
    nodes[0]!.status = 'wait';
    silentNodes.asked();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(nodes.map(({ status }) => status)).toEqual(['wait', 'ready']);
  });

  it('that never answers in time is waited for twice as long each time, until it does, and told of once', async () => {
    expect([await waitedMs(), await waitedMs(), await waitedMs(), await waitedMs()]).toEqual([
      1_000, 2_000, 3_000, 3_000,
    ]);
    expect(await waitedMs(1_200)).toBe(3_000); // late, but in time
    expect(told).toEqual(['no answer from node:1 within 1000 ms']);
    expect(await waitedMs(400)).toBe(1_000); // quickly
    expect(told).toHaveLength(2);
  });

  /** For how long a new connection to the first node is kept, in whole seconds, that says something after so long, and then no more. */
  async function waitedMs(answersAfterMs?: number): Promise<number> {
    const node = (nodes[0] = new FakeNode(1));
    expectAnswer(node);
    let silentSinceMs = performance.now();
    if (answersAfterMs !== undefined) {
      await vi.advanceTimersByTimeAsync(answersAfterMs);
      node.stream.bytesRead++;
      silentSinceMs = performance.now();
    }
    while (node.status !== 'end') await vi.advanceTimersByTimeAsync(50);
    return 1_000 * Math.floor((performance.now() - silentSinceMs) / 1_000);
  }

  it('whose answers are here, unread since the event loop was blocked, is not left', async () => {
    expectAnswer(nodes[0]!);
    await vi.advanceTimersByTimeAsync(300);
    const looking = vi.spyOn(performance, 'now').mockReturnValue(performance.now() + 60_000);
    await vi.advanceTimersByTimeAsync(201); // the timer rings
    nodes[0]!.stream.bytesRead += 10; // then sockets are read
    await vi.advanceTimersByTimeAsync(1);
    expect(looking).toHaveBeenCalled();
    expect(nodes[0]!.status).toBe('ready');
    nodes[0]!.commandQueue.length = 0;
    await vi.advanceTimersByTimeAsync(1_000);
  });

  it('is not looked at any more once it is over', async () => {
    expectAnswer(nodes[0]!);
    silentNodes.stop();
    await vi.advanceTimersByTimeAsync(5_000);
    expect(nodes[0]!.status).toBe('ready');
  });
});
