// A command that knows whether it may have run: ioredis rejects it with the same words before it was written and after.

import { Command } from 'ioredis';
import { isServersWords } from './failures.js';

export class SentCommand extends Command {
  /** Whether it was written, to a server that has not refused it since. */
  mayHaveRun = false;

  /** A node of a cluster may bring a `commandTimeout`, from `natMap`: ioredis would give the command up, and send it all the same. */
  override setTimeout(): void {
    // Limits are those of who sends it.
  }

  override toWritable(socket: object): string | Buffer {
    this.mayHaveRun = true;
    return super.toWritable(socket);
  }

  /**
   * Called once a cluster's client has it: a node that refuses it, with `MOVED` perhaps, has not run it, and ioredis may pass it on to
   * another one, to which it is not connected yet.
   */
  heedRefusals(): void {
    const { reject } = this;
    this.reject = (error: Error): void => {
      if (isServersWords(error)) this.mayHaveRun = false;
      reject(error);
    };
  }
}
