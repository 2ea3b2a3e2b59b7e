// The credentials that our clients connect with: what the user's own options say when a connection is made, since tokens expire and
// secrets are changed while a client lives. ioredis reads its options at each attempt to connect.

import type { Cluster, Redis, RedisOptions } from 'ioredis';

const NAMES = ['username', 'password', 'sentinelUsername', 'sentinelPassword'] as const;

type Name = (typeof NAMES)[number];
type Credentials = Pick<RedisOptions, Name>;

/** From now on `options` have the credentials that `given` returns by then. */
export function followCredentials(
  options: Credentials,
  given: () => Credentials | undefined,
): void {
  follow(options, NAMES, (name) => given()?.[name]);
}

/** What ioredis keeps to itself: the options of its clients for nodes. */
interface Pooled {
  readonly connectionPool?: { readonly redisOptions?: Credentials };
}

/** The same for the nodes of a cluster, whose clients may be made long before they connect. */
export function followCredentialsOfNodes(
  cluster: Cluster,
  given: () => Credentials | undefined,
): void {
  const { redisOptions } = (cluster as unknown as Pooled).connectionPool ?? {};
  if (!redisOptions) return;
  const common = new Map<Name, unknown>();
  follow(redisOptions, NAMES, (name) => {
    const value = given()?.[name];
    common.set(name, value);
    return value;
  });
  cluster.on('+node', ({ options }: Redis) => {
    // A start-up node may have brought its own.
    const isCommon = (name: Name): boolean =>
      (options[name] ?? null) === (common.get(name) ?? null);
    follow(options, NAMES.filter(isCommon), (name) => given()?.[name]);
  });
}

function follow(
  options: Credentials,
  names: readonly Name[],
  read: (name: Name) => string | null | undefined,
): void {
  for (const name of names) {
    const get = (): string | null | undefined => {
      try {
        return read(name);
      } catch {
        return undefined; // a getter of the user's has failed: after an attempt that throws ioredis would make no other
      }
    };
    Object.defineProperty(options, name, { get, enumerable: true, configurable: true });
  }
}
