// How a command is sent by an ioredis client, or by one of the connections of a cluster's.

import type { Writable } from 'node:stream';
import type { Argument, Sender } from '../driver.js';
import { isCluster } from './clients.js';
import { asCommandFailure } from './failures.js';
import { library } from './library.js';
import { SentCommand } from './sent-command.js';
import type { Ioredis } from './source.js';

const UTF8 = { replyEncoding: 'utf8' } as const;

export class IoredisSender<Client extends Ioredis = Ioredis> implements Sender {
  protected readonly ioredis: Client;
  /** Whether the client is of the ioredis imported here: another copy may be another version, which takes its own `Command` only. */
  readonly #isOfOurs: boolean;

  constructor(ioredis: Client) {
    this.ioredis = ioredis;
    this.#isOfOurs = ioredis instanceof library.Redis || ioredis instanceof library.Cluster;
  }

  send<T>(
    command: Lowercase<string>,
    args: readonly Argument[],
    read: (reply: unknown) => T,
    failed: (error: Error) => T | Promise<T>,
  ): Promise<T> {
    const sent = this.#isOfOurs ? new SentCommand(command, args as Argument[], UTF8) : undefined;
    const reply = sent ? this.#send(sent) : this.ioredis.call(command, args as Argument[]);
    return reply.then(read, (error: unknown) => failed(asCommandFailure(error, sent?.mayHaveRun)));
  }

  /** ioredis makes a system call for each command, and each would wake the server by itself: a corked socket makes one write of them. */
  gather(): void {
    if (isCluster(this.ioredis)) return;
    const stream = this.ioredis.stream as Writable | undefined; // none before it is connected
    if (!stream || stream.writableCorked > 0) return;
    stream.cork();
    process.nextTick(uncork, stream);
  }

  flush(): void {
    if (!isCluster(this.ioredis)) (this.ioredis.stream as Writable | undefined)?.uncork();
  }

  /** By `sendCommand`, which takes our `Command`s: ioredis' own methods come to the same by a generic wrapper that costs more. */
  #send(command: SentCommand): Promise<unknown> {
    const reply = this.ioredis.sendCommand(command) as Promise<unknown>;
    if (isCluster(this.ioredis)) command.heedRefusals();
    return reply;
  }
}

function uncork(stream: Writable): void {
  stream.uncork();
}
