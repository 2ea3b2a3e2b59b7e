// Subscribes channels at a server, and finds out which of the subscriptions stand.

import { failureKind } from './failure.js';
import type { Link } from './link.js';

export interface Asked {
  readonly channel: string;
  readonly isSharded: boolean;
}

/** The server's answer for a channel: 'told' that the subscription stands, or why it refuses; undefined: there will be no answer. */
export type Answer = 'told' | Error | undefined;

/**
 * How the text begins that each PING carries. ioredis 5 may take that text for the reply to a subscription, of which it reads the second
 * element: a text of one byte has none, and ioredis would throw.
 */
const ECHO = 'holdfast ';

/** Errors that a PING never gets: they are replies to another command. */
const ABOUT_A_SLOT = /^(MOVED|ASK|CLUSTERDOWN) /;

/**
 * Resolves to the answer for each channel; to 'lost' if the connection was; to 'mixed up' if replies were taken for those to other
 * commands, so that none of them can be relied on.
 *
 * A PING follows the subscriptions, and its answer comes after theirs. So a subscription that is unanswered by then never will be
 * answered (ioredis 5 drops the MOVED to an SSUBSCRIBE), and if the PING gets the answer to another command, replies are mixed up.
 */
export async function ask<Channel extends Asked>(
  link: Link,
  asked: readonly Channel[],
  nonce: number,
): Promise<ReadonlyMap<Channel, Answer> | 'lost' | 'mixed up'> {
  const answers = new Map<Channel, Answer>();
  const echo = ECHO + String(nonce);
  let pong: unknown;
  try {
    if (link.isReady) send(link, asked, answers);
    pong = await link.ask('ping', [echo], (reply) => reply);
  } catch (error) {
    const kind = failureKind(error);
    if (kind === 'unanswered' || kind === 'unsent') return 'lost';
    pong = error; // PING is not permitted, perhaps: that is an answer, too
  }
  if (!link.isReady) return 'lost';
  return isOfAnother(pong, echo) ? 'mixed up' : answers;
}

function send<Channel extends Asked>(
  { client }: Link,
  asked: readonly Channel[],
  answers: Map<Channel, Answer>,
): void {
  const subscribe = (channels: readonly Channel[], isSharded: boolean): void => {
    const names = channels.map(({ channel }) => channel);
    client.subscribe(names, isSharded, (refusal) => {
      for (const channel of channels) answers.set(channel, refusal ?? 'told');
    });
  };
  const classic = asked.filter(({ isSharded }) => !isSharded);
  if (classic.length > 0) subscribe(classic, false);
  // One by one, since one SSUBSCRIBE takes channels of one slot only.
  for (const channel of asked) if (channel.isSharded) subscribe([channel], true);
}

/**
 * Whether the answer to our PING is that to another command. When a slot moves away, the server unsubscribes us unasked. ioredis 5 takes
 * that for the reply to a PING, which gets the number of channels left; the next PING gets the text of the former, and so on.
 */
function isOfAnother(pong: unknown, echo: string): boolean {
  if (pong instanceof Error) return ABOUT_A_SLOT.test(pong.message);
  const last: unknown = Array.isArray(pong) ? pong.at(-1) : pong;
  // Any other text is taken for an answer to PING: a server may not know the one with an argument.
  return typeof last === 'number' || (String(last).startsWith(ECHO) && last !== echo);
}
