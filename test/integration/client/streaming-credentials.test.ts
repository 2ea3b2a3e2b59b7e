// node-redis' streaming credentials: new ones reach open connections, by AUTH; one that has subscribed may not send that, and is made anew.
import { expect, it } from 'vitest';
import { ChangingUser } from '../../support/users.js';
import { eventsOf, newClient, nextEvent } from '../../support/clients.js';
import { eventually } from '../../support/time.js';
import { startRedis } from '../../support/redis-server.js';
import { uniqueName } from '../../support/unique-name.js';

interface Credentials {
  readonly username: string;
  readonly password: string;
}

interface Listener {
  onNext(credentials: Credentials): void;
}

/** Gives credentials to those who subscribe. Like the providers for Entra ID, it has private fields. */
class Provider {
  readonly type = 'streaming-credentials-provider';
  readonly failures: unknown[] = [];
  readonly #listeners = new Set<Listener>();
  #current: Credentials;

  constructor(current: Credentials) {
    this.#current = current;
  }

  get listenerCount(): number {
    return this.#listeners.size;
  }

  subscribe(listener: Listener): Promise<[Credentials, { dispose(): void }]> {
    this.#listeners.add(listener);
    const dispose = (): void => void this.#listeners.delete(listener);
    return Promise.resolve([this.#current, { dispose }]);
  }

  renew(credentials: Credentials): void {
    this.#current = credentials;
    for (const listener of [...this.#listeners]) listener.onNext(credentials);
  }

  onReAuthenticationError(error: unknown): void {
    this.failures.push(error);
  }
}

it('new credentials authenticate commands again, and subscriptions by a new connection', async () => {
  await using server = await startRedis();
  await using user = await ChangingUser.on(server);
  const { username, password } = user;
  const provider = new Provider({ username, password });
  const socket = { host: server.host, port: server.port };
  const redis = { socket, credentialsProvider: provider };
  const client = newClient({ redis, lockWatchdogTimeout: 60_000, commandTimeout: 20_000 });
  await using holder = newClient({ redis: server.url, lockWatchdogTimeout: 60_000 });
  const [errors, lost] = [eventsOf(client, 'error'), eventsOf(client, 'lost')];
  const own = await client.getLock(uniqueName()).acquire();
  const lock = client.getLock(uniqueName());
  const hold = await holder.getLock(lock.name).acquire();
  const waits = nextEvent(client, 'waiting');
  const waiting = lock.acquire();
  await waits;
  await user.subscribedAnew([]);
  const connections = await user.connections();
  expect(connections).toHaveLength(2);

  for (let times = 0; times < 3; times++) {
    const before = await user.subscribers();
    await user.setPassword(user.newPassword());
    provider.renew({ username, password: user.password });
    await user.subscribedAnew(before);
  }
  const kept = (await user.connections()).filter((each) => connections.includes(each));
  expect(kept).toHaveLength(1);
  expect(provider.failures).toEqual([]);
  await hold.release();
  await (await waiting).release();
  expect(errors).toEqual([]);

  // The provider is left by connections that are lost.
  await user.kill();
  await eventually(() => {
    expect(client.status).toBe('ready');
    expect(provider.listenerCount).toBe(2);
  });
  await own.release();
  await client.close();
  expect(provider.listenerCount).toBe(0);
  expect(lost).toEqual([]);
});
