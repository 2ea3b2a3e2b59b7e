// Asks a server to tell of channels, and finds out what became of it.

import { failureKind } from './failure.js';
import type { Link } from './link.js';

export interface Asked {
  readonly channel: string;
  readonly isSharded: boolean;
}

/** undefined: there will be none. */
export type Answer = 'told' | Error | undefined;

/** What a PING carries begins with it: one byte alone would be enough for a client (ioredis 5) to fall over where it takes it for another reply. */
const ECHO = 'holdfast ';

/** Errors that no PING gets. */
const ABOUT_A_SLOT = /^(MOVED|ASK|CLUSTERDOWN) /;

/**
 * The answer for each channel; or that the connection was lost, or that replies were taken for those to other commands, so that
 * none of them can be relied on.
 *
 * A PING goes with them, whose answer comes after theirs: what is not answered by then never will be (ioredis 5 drops the MOVED of
 * an SSUBSCRIBE), and where it has another one's answer, they are mixed up.
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
    pong = error; // that it is not permitted, perhaps
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
  // Each has a slot of its own.
  for (const channel of asked) if (channel.isSharded) subscribe([channel], true);
}

/** ioredis 5 takes an unsubscription that nobody asked for as the reply to the next command, and so on from there. */
function isOfAnother(pong: unknown, echo: string): boolean {
  if (pong instanceof Error) return ABOUT_A_SLOT.test(pong.message);
  const last: unknown = Array.isArray(pong) ? pong.at(-1) : pong;
  // Whatever else a PING may be answered with by a server that does not know the one with an argument.
  return typeof last === 'number' || (String(last).startsWith(ECHO) && last !== echo);
}
