// The reentrant lock on one Redis: what its scripts are sent and what they answer. The data is Redisson's RLock.

import type {
  AcquireReply,
  Candidate,
  KeepReply,
  LockBackend,
  Renewable,
  Wanted,
} from '../backend.js';
import type { Node } from '../node.js';
import { LockKeys } from '../redis/keys.js';
import { scripts } from '../redis/scripts.generated.js';
import type { Line } from '../waiting/line.js';
import { ReentrantCandidate } from './reentrant-candidate.js';

const ACQUIRED: AcquireReply = { outcome: 'acquired' };

export class ReentrantLock implements LockBackend {
  readonly name: string;
  readonly id: string;
  readonly newOwnerId: () => string;
  protected readonly node: Node;
  protected readonly keys: LockKeys;

  constructor(
    node: Node,
    clientId: string,
    keyPrefix: string,
    name: string,
    newOwnerId: () => string,
  ) {
    this.name = name;
    this.node = node;
    this.keys = new LockKeys(keyPrefix + name);
    this.id = `${node.token} ${this.keys.lock}`;
    this.newOwnerId = newOwnerId;
  }

  candidate(ownerId: string, wanted: Wanted): Candidate {
    return new ReentrantCandidate(this, ownerId, wanted);
  }

  acquire(ownerId: string, leaseMs: number): Promise<AcquireReply> {
    return this.node.connection.run(
      scripts.acquire,
      [this.keys.lock],
      [ownerId, leaseMs],
      readAcquire,
    );
  }

  reenter(ownerId: string, holdCount: number, leaseMs: number): Promise<KeepReply> {
    const { lock, forced } = this.keys;
    const args = [ownerId, holdCount, leaseMs];
    return this.node.connection.run(
      scripts.reenter,
      [lock, forced],
      args,
      (reply) => reply as KeepReply,
    );
  }

  release(ownerId: string): Promise<boolean> {
    const { lock, channel } = this.keys;
    const args = [ownerId, channel, this.node.publishCommand(this.keys)];
    return this.node.connection.run(scripts.release, [lock], args, (reply) => reply === 1);
  }

  watch(lease: Renewable): void {
    this.node.watchdog.watch(lease, this.keys, this.node.holdRenewer);
  }

  unwatch(lease: Renewable): void {
    this.node.watchdog.unwatch(lease);
  }

  line(): Line {
    return this.node.line(this.keys);
  }

  forceUnlock(wordMs: number): Promise<string | undefined> {
    const { lock, forced, channel } = this.keys;
    const args = [channel, this.node.publishCommand(this.keys), wordMs];
    return this.node.connection.run(
      scripts.forceUnlock,
      [lock, forced],
      args,
      (reply) => (reply as string | null) ?? undefined,
    );
  }

  async isLocked(): Promise<boolean> {
    return (await this.node.connection.command((redis) => redis.exists(this.keys.lock))) === 1;
  }

  async holdCount(ownerId: string): Promise<number> {
    return Number(
      (await this.node.connection.command((redis) => redis.hget(this.keys.lock, ownerId))) ?? 0,
    );
  }

  async remainTimeToLive(): Promise<number> {
    return await this.node.connection.command((redis) => redis.pttl(this.keys.lock));
  }
}

function readAcquire(reply: unknown): AcquireReply {
  if (reply === 1) return ACQUIRED;
  const [holder, holderTtlMs] = reply as [string, number];
  return { outcome: 'held', holder, holderTtlMs };
}
