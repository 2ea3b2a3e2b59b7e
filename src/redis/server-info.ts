// What a server says of itself in its answer to INFO.

/** The oldest Redis that holdfast is made for. */
const MINIMUM_VERSION = { major: 6, minor: 2 } as const;

export interface ServerInfo {
  /** `redis_version`, which Valkey reports too; undefined when the server does not tell. */
  readonly version: string | undefined;
  /** Tells the server from all others, and from itself before a restart. */
  readonly runId?: string | undefined;
  /** For how long the server has been up at least, in milliseconds. */
  readonly uptimeMs?: number;
}

export function parseServerInfo(info: string): ServerInfo {
  const version = /^redis_version:(\S+)/m.exec(info)?.[1];
  const runId = /^run_id:(\S+)/m.exec(info)?.[1];
  const uptime = /^uptime_in_seconds:(\d+)/m.exec(info)?.[1];
  if (uptime === undefined) return { version, runId };
  // The server subtracts whole seconds of its clock: what it calls a second may be a moment.
  return { version, runId, uptimeMs: Math.max(0, Number(uptime) - 1) * 1_000 };
}

export function majorVersion(server: ServerInfo): number {
  return Number.parseInt(server.version ?? '0', 10);
}

/** A server that does not tell its version is taken to be new enough. */
export function isTooOld({ version }: ServerInfo): boolean {
  if (version === undefined) return false;
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return (
    major < MINIMUM_VERSION.major ||
    (major === MINIMUM_VERSION.major && minor < MINIMUM_VERSION.minor)
  );
}

export function tooOldMessage({ version }: ServerInfo): string {
  return `Redis ${version ?? ''} is too old: holdfast needs Redis ${String(MINIMUM_VERSION.major)}.${String(MINIMUM_VERSION.minor)} or newer, or any Valkey`;
}
