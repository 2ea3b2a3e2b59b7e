// One ioredis client of ours, a Redis or a Cluster, as a driver's client.

import type { Redis } from 'ioredis';
import type { Writable } from 'node:stream';
import type { ClientListener, ClusterNodes, Endpoint, RedisClient } from '../driver.js';
import { ASKING_DENIED, isCluster } from './clients.js';
import { seeToComeback } from './comeback.js';
import { disconnect } from './disconnection.js';
import { asFailure } from './failures.js';
import { bytesReadBy, IoredisNodes } from './nodes.js';
import { IoredisSender } from './sender.js';
import type { Ioredis } from './source.js';
import { onTrouble, unexplained } from './troubles.js';

/** ioredis' words for a reply to no command. */
const OUT_OF_STEP = 'Command queue state error';

export class IoredisClient extends IoredisSender implements RedisClient {
  readonly cluster: ClusterNodes | undefined;
  readonly #stopLooking: () => void;
  readonly #refreshTimer: NodeJS.Timeout | undefined;

  /** `slotsRefreshMs`: how often a cluster is asked which node has which slots, without a reason; 0: never. */
  constructor(ioredis: Ioredis, slotsRefreshMs = 0) {
    super(ioredis);
    this.#stopLooking = seeToComeback(ioredis);
    if (isCluster(ioredis))
      this.cluster = new IoredisNodes(ioredis, (beside) => new IoredisClient(beside));
    if (slotsRefreshMs > 0) {
      this.#refreshTimer = setInterval(() => {
        this.cluster?.refresh();
      }, slotsRefreshMs);
    }
  }

  get address(): string {
    if (isCluster(this.ioredis)) return 'cluster';
    const { host, port, path, sentinels, name } = this.ioredis.options;
    // With the address of a Sentinel, since groups of different Sentinels often have the same name.
    if (sentinels) return `${name ?? 'sentinel'} by ${hostAndPort(sentinels[0], 26379)}`;
    return path ?? hostAndPort({ host, port }, 6379);
  }

  get database(): number {
    return isCluster(this.ioredis) ? 0 : (this.ioredis.options.db ?? 0);
  }

  get hasSentinels(): boolean {
    return !isCluster(this.ioredis) && (this.ioredis.options.sentinels ?? null) !== null;
  }

  get endpoint(): Endpoint | undefined {
    if (isCluster(this.ioredis)) return undefined;
    const {
      host = 'localhost',
      port = 6379,
      path,
      tls,
      sentinels,
      Connector,
    } = this.ioredis.options;
    if (tls || sentinels || Connector) return undefined;
    return path ? { path } : { host, port };
  }

  /** (ioredis may call a cluster ready that has no node: `seeToComeback` says when.) */
  get isReady(): boolean {
    const { ioredis } = this;
    return ioredis.status === 'ready' && (!isCluster(ioredis) || ioredis.nodes().length > 0);
  }

  get bytesRead(): number {
    const { cluster } = this;
    if (!cluster) return bytesReadBy(this.ioredis as Redis) ?? 0;
    return cluster.nodes.reduce((sum, { bytesRead = 0 }) => sum + bytesRead, 0);
  }

  listen(listener: ClientListener): void {
    const client = this.ioredis;
    onTrouble(client, (error) => {
      if (error.message.startsWith(OUT_OF_STEP)) listener.outOfStep(error);
      else listener.failed(error);
    });
    client.on('connect', listener.connected);
    client.on('ready', listener.ready);
    // A cluster may emit `close` once for each of its nodes: only the first one counts.
    let isOver = true;
    for (const beginning of ['connecting', 'connect', 'ready']) {
      client.on(beginning, () => {
        isOver = false;
      });
    }
    client.on('close', () => {
      if (isOver) return;
      isOver = true;
      listener.closed(unexplained(client));
    });
    client.on(ASKING_DENIED, (error: Error) => {
      listener.hindered(asFailure(error));
    });
    client.on('moved', listener.moved);
    client.on('message', listener.message);
    client.on('smessage', listener.message);
  }

  subscribe(
    channels: readonly string[],
    isSharded: boolean,
    answered: (refusal: Error | undefined) => void,
  ): void {
    const command = isSharded ? 'ssubscribe' : 'subscribe';
    this.ioredis[command](...channels).then(
      () => {
        answered(undefined);
      },
      (error: unknown) => {
        answered(asFailure(error));
      },
    );
  }

  unsubscribe(channel: string, isSharded: boolean, failed: (error: Error) => void): void {
    this.ioredis[isSharded ? 'sunsubscribe' : 'unsubscribe'](channel).catch((error: unknown) => {
      failed(asFailure(error));
    });
  }

  /** None if ioredis does not say which: then all are asked for again. */
  get shardedChannels(): ReadonlySet<string> {
    type Condition = { subscriber?: { channels(kind: 'ssubscribe'): string[] } | false } | null;
    const { condition } = this.ioredis as { condition?: Condition };
    return new Set(condition?.subscriber ? condition.subscriber.channels('ssubscribe') : []);
  }

  /**
   * Without a socket there is nothing to drop, and an attempt to connect is under way or due: ioredis would give it up for good. A socket
   * that is being dropped is left alone: ioredis gives it a timer and a listener each time.
   */
  reconnect(): void {
    const { ioredis } = this;
    const stream = isCluster(ioredis) ? undefined : (ioredis.stream as Writable | undefined);
    if (isCluster(ioredis) || (stream && !stream.writableEnded && !stream.destroyed))
      ioredis.disconnect(true);
  }

  close(): Promise<void> {
    this.#stopLooking();
    clearInterval(this.#refreshTimer);
    return disconnect(this.ioredis);
  }
}

function hostAndPort(
  { host, port }: { readonly host?: string | undefined; readonly port?: number | undefined } = {},
  defaultPort: number,
): string {
  return `${host ?? 'localhost'}:${String(port ?? defaultPort)}`;
}
