// The line of a fair lock, one client whose commands can be disturbed on their way, and two others.
import type { Redis } from 'ioredis';
import type { Holdfast } from '../../src/index.js';
import type { scripts } from '../../src/redis/scripts.generated.js';
import { newClient } from './clients.js';
import { fairClientsPerTest } from './fair-clients.js';
import type { FairLine } from './fair-line.js';
import { commandOf } from './lock-commands.js';
import type { HeldCommand } from './proxy-interceptors.js';
import { proxyPerTest } from './shared-proxy.js';

export type Fault = 'loseReplyTo' | 'cutAfterForwarding' | 'holdBack' | 'copyNext';

/** The holder's is longer than a test. */
export const LEASE_MS = 1_500;

export interface DisturbedLine {
  readonly line: FairLine;
  /** Goes through the proxy. */
  readonly client: Holdfast;
  readonly other: Holdfast;
  readonly holder: Holdfast;
  /** Does this to the next run of this script by the client. */
  readonly disturb: (fault: Fault, script: keyof typeof scripts) => HeldCommand;
}

/** For each test of the file that this is called in; returns the present test's. */
export function disturbedLinePerTest(redis: Redis): () => DisturbedLine {
  const proxy = proxyPerTest();
  // The time-out: so that a command is repeated rather than given up.
  const options = { lockWatchdogTimeout: LEASE_MS, commandTimeout: 5_000 };
  const clients = fairClientsPerTest(redis, () => ({
    client: newClient({ ...options, redis: proxy().url }),
    other: newClient(options),
    holder: newClient({ lockWatchdogTimeout: 30_000 }),
  }));
  return () => {
    const present = clients();
    const disturb: DisturbedLine['disturb'] = (fault, script) =>
      proxy()[fault](commandOf(script, present.line.name)) as HeldCommand;
    return { ...present, disturb };
  };
}
