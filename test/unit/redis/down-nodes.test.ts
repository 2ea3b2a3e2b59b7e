// What a client does about the nodes of a cluster that refuse with CLUSTERDOWN.
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { DownNodes } from '../../../src/redis/down-nodes.js';
import type { ClusterNodes } from '../../../src/redis/driver.js';
import { replyError } from '../../../src/redis/failure.js';

const DOWN = replyError('CLUSTERDOWN The cluster is down');

let refresh: ReturnType<typeof vi.fn>;
let downNodes: DownNodes;

beforeEach(() => {
  vi.useFakeTimers();
  refresh = vi.fn();
  downNodes = new DownNodes({ refresh } as unknown as ClusterNodes);
});

afterEach(() => {
  vi.useRealTimers();
});

it.each(['CLUSTERDOWN The cluster is down', 'CLUSTERDOWN Hash slot not served'])(
  '%s has it asked anew which node has what',
  (words) => {
    downNodes.failed(replyError(words));
    expect(refresh).toHaveBeenCalledOnce();
  },
);

it('any other failure does not', () => {
  for (const words of [
    'MOVED 1 127.0.0.1:7000',
    'LOADING Redis is loading',
    'NOPERM no permissions',
  ])
    downNodes.failed(replyError(words));
  downNodes.failed(new Error('the connection was lost'));
  expect(refresh).not.toHaveBeenCalled();
});

it('many refusals at once have it asked once, and those that follow again', () => {
  for (let count = 0; count < 1_000; count++) downNodes.failed(DOWN);
  expect(refresh).toHaveBeenCalledOnce();
  vi.advanceTimersByTime(10_000);
  for (let count = 0; count < 1_000; count++) downNodes.failed(DOWN);
  expect(refresh).toHaveBeenCalledTimes(2);
});

it('a cluster that stays down is asked a few times a second', () => {
  for (let passedMs = 0; passedMs < 10_000; passedMs += 10) {
    downNodes.failed(DOWN);
    vi.advanceTimersByTime(10);
  }
  expect(refresh.mock.calls.length).toBeGreaterThan(10);
  expect(refresh.mock.calls.length).toBeLessThanOrEqual(50);
});
