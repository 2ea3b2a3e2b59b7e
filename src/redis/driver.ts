// The port to a client library: what holdfast needs of one, and nothing else. redis/ioredis/ is such a driver; test/support/
// driver-contract.ts is what every driver has to pass.

/** What a command is sent with; a number goes as its decimal digits. */
export type Argument = string | number;

/** Makes clients for one Redis: a server, the master that Sentinel names, or a cluster. */
export interface Driver {
  /** The key prefix of the user's own client. The clients that are made here have none. */
  readonly keyPrefix: string;
  /**
   * A new client. It connects at once, and anew whenever its connection is lost, until it is closed; it queues nothing meanwhile,
   * resends nothing, and subscribes to nothing by itself.
   *
   * @param silenceLimitMs - how long a Sentinel may take to answer
   */
  connect(silenceLimitMs: number): RedisClient;
}

/** What takes commands: a client, or one of the nodes that the client of a cluster is connected to. */
export interface Sender {
  /**
   * Sends a command once. Resolves to what `read` makes of the reply, or `failed` of the failure; they are called by the very promise
   * that is returned, so that a command costs no other.
   *
   * Under RESP2 and RESP3, an integer is a number, every kind of string a string (of UTF-8), an array an array, and nil null.
   *
   * A failure is one of these, and none holds a password:
   * - an error called `ReplyError`, with the server's words: it answered
   * - `RefusedError`: a Sentinel, which shows the way to the server, refuses us
   * - `UnsentError`: the command was not sent
   * - `LostError`: the connection is gone, and nobody said why; the command may have run
   * - any other error: the connection is gone for this reason; the command may have run
   *
   * A cluster's client sends a script to the node of its first key, any other command to that of its first argument, and follows
   * `MOVED` and `ASK`; a node does not.
   */
  send<T>(
    command: Lowercase<string>,
    args: readonly Argument[],
    read: (reply: unknown) => T,
    failed: (error: Error) => T | Promise<T>,
  ): Promise<T>;
  /** Has all that is sent until the end of this turn of the event loop written in one go. A cluster's client need not do so. */
  gather(): void;
  /** Writes what was gathered now, without waiting for the end of the turn. */
  flush(): void;
}

/** A client of the library, with its one connection, or in a cluster one to each node. */
export interface RedisClient extends Sender {
  /** Where it connects to, for people. */
  readonly address: string;
  /** The number of the database that its connections select; 0 is the one that they begin in. */
  readonly database: number;
  /** Whether Sentinels name the server: another one may take over that has missed what was written last. */
  readonly hasSentinels: boolean;
  /** Where a bare socket reaches the same server; undefined: it needs more than that, or there are several. */
  readonly endpoint: Endpoint | undefined;
  /** Whether commands can be sent, as far as the client knows. */
  readonly isReady: boolean;
  /** How much it has read on its present connections. */
  readonly bytesRead: number;
  /** The nodes, if it is the client of a cluster. */
  readonly cluster: ClusterNodes | undefined;

  /** Has the client tell what happens from now on. Called once, in the turn in which it was made. */
  listen(listener: ClientListener): void;

  /**
   * Subscribes classic channels together, or a single sharded one. `answered` is called before the reply to the command that is sent
   * next is read; it may never be called.
   */
  subscribe(
    channels: readonly string[],
    isSharded: boolean,
    answered: (refusal: Error | undefined) => void,
  ): void;
  unsubscribe(channel: string, isSharded: boolean, failed: (error: Error) => void): void;
  /** The sharded channels that are subscribed, as far as the client knows. */
  readonly shardedChannels: ReadonlySet<string>;

  /** Drops the connection and makes another one, to wherever the address leads now. */
  reconnect(): void;
  /** Disconnects for good, whatever it is doing; resolves when the socket is gone. */
  close(): Promise<void>;
}

/** A port of a host, or the path of a socket. */
export type Endpoint = { readonly host: string; readonly port: number } | { readonly path: string };

/** What a client tells of its connections. */
export interface ClientListener {
  /** A socket is connected, and the handshake begins. */
  readonly connected: () => void;
  /** The handshake is over, and commands can be sent. */
  readonly ready: () => void;
  /** The connection is gone, or the attempt to make one. `unsaid` is the reason to give if `failed` has told none. */
  readonly closed: (unsaid: Error) => void;
  /** What went wrong with the connection, an attempt to make one, or the node of a cluster: one error for each attempt. */
  readonly failed: (error: Error) => void;
  /** A command is not permitted without which others will fail at times. */
  readonly hindered: (error: Error) => void;
  /** A reply came while none was awaited: earlier ones may have been taken for replies to other commands. */
  readonly outOfStep: (error: Error) => void;
  readonly message: (channel: string, payload: string) => void;
  /** A sharded channel is not subscribed any more, or was refused, since its slot has moved. */
  readonly moved: () => void;
}

/** What the client of a cluster knows of its nodes. Each is known by the address at which it is reached. */
export interface ClusterNodes {
  /** The master of a slot; undefined: it is not known. */
  masterOf(slot: number): string | undefined;
  /** All nodes, replicas too, that there are connections to, or will be. */
  readonly nodes: readonly ClusterNode[];
  /** The masters that there are connections to, or will be. */
  readonly masters: readonly ClusterNode[];
  /** A node that can be sent commands; undefined: there is no connection to it. */
  node(address: string): ClusterNode | undefined;
  /** The address at which we reach the node that other nodes call by this one. */
  reachedAt(announced: string): string;
  /** Asks anew which node has which slots. */
  refresh(): void;
  watch(listener: ClusterListener): void;
}

export interface ClusterNode extends Sender {
  readonly address: string;
  /** Whether the end of its handshake is awaited, or the reply to a command. */
  readonly owesAnswer: boolean;
  /** How many bytes the node has sent on its present connection; undefined: there is none. */
  readonly bytesRead: number | undefined;
  /** Sends ASKING: the node runs the next command though the slot is only on its way there. If ASKING is denied, `hindered` tells. */
  asking(): void;
  /** Drops its connection. The next command for its slots makes another, to whoever has them then. */
  disconnect(): void;
  /** A new client for subscriptions at this node. */
  connectBeside(): RedisClient;
}

export interface ClusterListener {
  /** A node has answered which node has which slots. */
  readonly refreshed: () => void;
  readonly nodeAdded?: () => void;
  readonly nodeLost: (address: string) => void;
}
