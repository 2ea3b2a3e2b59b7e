// A client whose connection is up: what it is asked next is sent at once.
import type { Holdfast, HoldfastOptions } from '../../src/index.js';
import { eventually } from './eventually.js';
import { newClient } from './clients.js';
import { uniqueName } from './unique-name.js';

export async function connectedClient(options: Partial<HoldfastOptions>): Promise<Holdfast> {
  const client = newClient(options);
  // A machine that is busy may take longer to connect than a short commandTimeout allows.
  await eventually(() => client.getLock(uniqueName()).isLocked());
  return client;
}
