// How a script is sent: by its hash, or in full where the server does not know it yet.

import { Command } from 'ioredis';
import { isOfOurIoredis, type RedisClient } from './clients.js';
import type { Script } from './scripts.generated.js';

/** What sends a script by a client, or by one like it. */
export type SendScript = (
  client: RedisClient,
  script: Script,
  isKnown: boolean,
  keys: readonly string[],
  args: readonly (string | number)[],
) => Promise<unknown>;

/** The way that this client takes: `sendCommand`, since ioredis' own methods do the same by way of a generic wrapper that costs more. */
export function scriptSender(client: RedisClient): SendScript {
  return isOfOurIoredis(client) ? sendAsCommand : sendAsCall;
}

const sendAsCommand: SendScript = (client, script, isKnown, keys, args) => {
  const parts = [isKnown ? script.sha1 : script.source, keys.length, ...keys, ...args];
  const command = new Command(isKnown ? 'evalsha' : 'eval', parts, { replyEncoding: 'utf8' });
  return client.sendCommand(command) as Promise<unknown>;
};

const sendAsCall: SendScript = (client, script, isKnown, keys, args) => {
  const parts = [isKnown ? script.sha1 : script.source, keys.length, ...keys, ...args];
  return client.call(isKnown ? 'evalsha' : 'eval', parts);
};
