// A command that knows whether it may have run: ioredis rejects it with the same words before it was written and after.

import { isServersWords } from './failures.js';
import { library } from './library.js';

export class SentCommand extends library.Command {
  /** Whether it was written, to a server that has not refused it since. */
  mayHaveRun = false;

  /** A node of a cluster may bring a `commandTimeout`, from `natMap`: ioredis would give the command up, and send it all the same. */
  override setTimeout(): void {
    // The limits are those of the caller.
  }

  override toWritable(socket: object): string | Buffer {
    this.mayHaveRun = true;
    return super.toWritable(socket);
  }

  /**
   * Called when a cluster's client has taken the command. A node that refuses it, with `MOVED` perhaps, has not run it. If ioredis then
   * fails to pass it on to another node, to which it is not connected yet, the command was written and yet ran nowhere.
   */
  heedRefusals(): void {
    const { reject } = this;
    this.reject = (error: Error): void => {
      if (isServersWords(error)) this.mayHaveRun = false;
      reject(error);
    };
  }
}
