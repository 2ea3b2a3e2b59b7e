// A user of some servers whose password is changed, which ends all connections that it has.
import { Redis } from 'ioredis';
import { randomBytes } from 'node:crypto';
import { expect } from 'vitest';
import { eventually } from './eventually.js';
import type { RedisServer } from './redis-server.js';

type Addressed = Pick<RedisServer, 'url'>;

export class ChangingUser implements AsyncDisposable {
  readonly username = 'app';
  /** All that it has had so far, the last one included. */
  readonly passwords: string[] = [];
  readonly #admins: readonly Redis[];

  private constructor(servers: readonly Addressed[]) {
    this.#admins = servers.map(({ url }) => new Redis(url));
  }

  static async on(...servers: Addressed[]): Promise<ChangingUser> {
    const user = new ChangingUser(servers);
    await user.#all((redis) =>
      redis.acl('SETUSER', user.username, 'on', 'resetpass', '~*', '&*', '+@all'),
    );
    await user.setPassword(user.newPassword());
    return user;
  }

  get password(): string {
    return this.passwords.at(-1)!;
  }

  newPassword(): string {
    const password = `secret-${randomBytes(8).toString('hex')}`;
    this.passwords.push(password);
    return password;
  }

  async setPassword(password: string): Promise<void> {
    await this.#all((redis) => redis.acl('SETUSER', this.username, 'resetpass', `>${password}`));
  }

  async kill(): Promise<void> {
    await this.#all((redis) => redis.call('CLIENT', 'KILL', 'USER', this.username));
  }

  /** Resolves when some connection of the user subscribes that is none of those of `before`. */
  async subscribedAnew(before: readonly string[]): Promise<void> {
    await eventually(async () => {
      const anew = (await this.subscribers()).filter((id) => !before.includes(id));
      expect(anew).not.toEqual([]);
    });
  }

  /** Its connections that have subscribed to something. */
  async subscribers(): Promise<string[]> {
    const lists = await this.#all((redis) => redis.call('CLIENT', 'LIST', 'TYPE', 'pubsub'));
    return lists.flatMap((list, index) =>
      String(list)
        .split('\n')
        .filter((line) => line.includes(` user=${this.username} `))
        .map((line) => `${index} ${/^id=\d+/.exec(line)?.[0] ?? ''}`),
    );
  }

  #all(ask: (redis: Redis) => Promise<unknown>): Promise<unknown[]> {
    return Promise.all(this.#admins.map(ask));
  }

  [Symbol.asyncDispose](): Promise<void> {
    for (const redis of this.#admins) redis.disconnect();
    return Promise.resolve();
  }
}
