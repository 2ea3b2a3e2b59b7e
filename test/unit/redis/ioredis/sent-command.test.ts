// A command that knows whether it was written.
import type { Command } from 'ioredis';
import { expect, it, vi } from 'vitest';
import { SentCommand } from '../../../../src/redis/ioredis/sent-command.js';

it('is not given up by ioredis, which would still send it: only who sends it has a limit', async () => {
  vi.useFakeTimers();
  try {
    const command: Command = new SentCommand('get', ['key'], { replyEncoding: 'utf8' });
    command.setTimeout(10);
    const gaveUp = vi.fn();
    command.promise.catch(gaveUp);
    await vi.advanceTimersByTimeAsync(100);
    expect(gaveUp).not.toHaveBeenCalled();
  } finally {
    vi.useRealTimers();
  }
});
