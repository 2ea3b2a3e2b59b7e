// Hears from Sentinels that another server is the master now, and leaves the former one: that goes on granting locks until it learns of it,
// ten seconds later. ioredis' own `failoverDetector` leaves it, too, but may be led back by a Sentinel that has not heard of the failover,
// prints an error for each Sentinel that is down, and leaves at the failovers of other groups.

import type { Socket } from 'node:net';
import type { Redis, RedisOptions, SentinelAddress } from 'ioredis';
import { followCredentials } from './credentials.js';

/** The leader of a failover tells of the promotion; all Sentinels tell of the switch when they know, the leader when it is done. */
const CHANNELS = ['+promoted-slave', '+switch-master'];

/** How many Sentinels are listened to at most, as in ioredis. */
const MOST_SENTINELS = 10;

/** What ioredis keeps to itself: how it finds the master. Another ioredis, which has no such methods, has its own `failoverDetector`. */
interface SentinelConnector {
  /** Whether a connection is wanted. */
  readonly connecting?: boolean;
  /** The Sentinels in the order in which they are asked. `reset` begins again with the first, or makes the one that was asked last the first. */
  readonly sentinelIterator?: {
    sentinels: SentinelAddress[];
    reset: (isLastFirst: boolean) => void;
  };
  /** What hears of failovers; it is cleaned up when the connection is dropped, for good or to make another. */
  failoverDetector?: { cleanup: () => void } | null;
  connectToSentinel?: (sentinel: SentinelAddress, options: RedisOptions) => Redis;
  /** Called when there is a socket to the server that a Sentinel named. */
  initFailoverDetector?: () => Promise<void>;
}

/** What ioredis keeps to itself: the client's connector, and whether its connection is dropped for good. */
interface Connected {
  readonly connector?: SentinelConnector;
  readonly manuallyClosing?: boolean;
}

export function withFailoversHeard(redis: Redis): Redis {
  const connected = redis as unknown as Connected;
  const { connector } = connected;
  const { sentinelIterator } = connector ?? {};
  if (!connector?.connectToSentinel || !connector.initFailoverDetector || !sentinelIterator)
    return redis;
  const connectTo = connector.connectToSentinel.bind(connector);
  /** By address. They stay while the client connects anew: what is told meanwhile must not be missed. */
  const listeners = new Map<string, Redis>();
  /** Who the master is by what was heard while a Sentinel was asked, which may not have known of it. */
  let overtakenBy: string | undefined;

  /** Each Sentinel tells of the same failover: the first of them is enough. (By another name than its address a server is not known here.) */
  const isAt = (master: string): boolean => {
    const { remoteAddress = '', remotePort = 0 } = redis.stream as Partial<Socket>;
    return `${remoteAddress} ${String(remotePort)}` === master;
  };

  const leaveFor = (master: string): void => {
    if (redis.status === 'connecting') overtakenBy = master;
    // At once: what the former master still answers would count. ioredis connects anew.
    else if ((redis.status === 'connect' || redis.status === 'ready') && !isAt(master))
      redis.stream.destroy();
  };

  const listenTo = (sentinel: SentinelAddress): Redis => {
    const listener = connectTo(sentinel, {
      retryStrategy: redis.options.sentinelReconnectStrategy,
      // If ioredis subscribed anew by itself, a Sentinel that refuses us would cause a rejection that nobody handles.
      autoResubscribe: false,
      // Without a ready check, ioredis 5 may call a connection ready that was lost while this was on its way, and makes no other.
      disableClientInfo: true,
      commandTimeout: undefined, // its timers outlive the connection
      keepAlive: redis.options.keepAlive,
      disconnectTimeout: redis.options.disconnectTimeout,
    });
    followCredentials(listener.options, () => ({
      username: redis.options.sentinelUsername,
      password: redis.options.sentinelPassword,
    }));
    listener.on('error', () => undefined); // who connects tells of Sentinels that cannot be reached
    listener.on('message', (channel: string, message: string) => {
      const { group, master } = told(channel, message);
      if (group !== redis.options.name) return;
      // This one is asked first: others may not have heard, and would name the former master.
      const others = sentinelIterator.sentinels.filter((other) => other !== sentinel);
      sentinelIterator.sentinels = [sentinel, ...others];
      sentinelIterator.reset(false);
      leaveFor(master);
    });
    listener.on('ready', () => {
      // One by one, since only one of them may be permitted.
      for (const channel of CHANNELS) listener.subscribe(channel).catch(() => undefined);
    });
    return listener;
  };

  const close = (): void => {
    for (const listener of listeners.values()) listener.disconnect();
    listeners.clear();
  };
  redis.on('end', close);

  connector.initFailoverDetector = () => {
    // The one that answered is asked first from now on; unless another has told of a failover meanwhile, which is in front already.
    sentinelIterator.reset(overtakenBy === undefined);
    for (const sentinel of sentinelIterator.sentinels) {
      const address = `${sentinel.host} ${String(sentinel.port)}`;
      // A client that was closed meanwhile would never close what is opened here.
      const isWanted = connector.connecting && listeners.size < MOST_SENTINELS;
      if (isWanted && !listeners.has(address)) listeners.set(address, listenTo(sentinel));
    }
    connector.failoverDetector = {
      cleanup: () => {
        if (connected.manuallyClosing !== false) close();
      },
    };
    const master = overtakenBy;
    overtakenBy = undefined;
    if (master !== undefined)
      redis.once('connect', () => {
        leaveFor(master);
      });
    return Promise.resolve();
  };
  return redis;
}

/**
 * Which group a Sentinel tells of, and the host and port of its master. "+switch-master": "<group> <former host> <port> <host> <port>";
 * "+promoted-slave": "slave <name> <host> <port> @ <group> <former host> <port>".
 */
function told(channel: string, message: string): { group: string | undefined; master: string } {
  const words = message.split(' ');
  return channel === '+switch-master'
    ? { group: words[0], master: words.slice(3, 5).join(' ') }
    : { group: words[5], master: words.slice(2, 4).join(' ') };
}
