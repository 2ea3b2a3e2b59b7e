// One proxied connection: a client's socket, the server's socket, and what happens between them.
import type { Socket } from 'node:net';

/** What does not pass: commands (upstream), replies and messages (downstream), or both. */
export type Swallowed = 'upstream' | 'downstream' | 'both';

/** What the server gets instead of a command that is to be refused, unless that says otherwise: it says so, and does nothing. */
const REFUSAL = "return redis.error_reply('OOM refused on the way')";

export interface Treatment {
  readonly kind: 'forward' | 'refuse' | 'lose reply' | 'hold back' | 'cut after forwarding';
  /** What becomes of the connection afterwards, unless the command is just forwarded. */
  readonly then: 'cut' | 'silence';
  /** Of a command that is refused: a script that the server runs in its place, whose reply is passed on. */
  readonly instead?: string;
  done(): void;
}

/** It passes as usual. */
export const FORWARD: Treatment = { kind: 'forward', then: 'cut', done: () => undefined };

/** What the proxy decides for all its links. */
interface LinkRules {
  treat(command: Buffer, args: Buffer[]): Treatment;
  rewrite(reply: Buffer): Buffer;
  /** After how many milliseconds each copy of a pub/sub message is passed on; a promise: it is held back until then. */
  copies(message: Buffer): readonly number[] | Promise<readonly number[]>;
  /** Its client has subscribed for the first time. */
  onSubscribe(): void;
  onEnd(): void;
}

export class ProxyLink {
  readonly #client: Socket;
  readonly #server: Socket;
  readonly #upstream: ProxyFlow;
  readonly #downstream: ProxyFlow;
  readonly #rules: LinkRules;
  /** Commands that the server has not answered yet. */
  #unanswered = 0;
  /** A command after whose predecessors are answered, or after whose own reply, the link ends. */
  #last: Treatment | undefined;
  /** Copies of messages that are passed on later. */
  readonly #late = new Set<NodeJS.Timeout>();
  /** Whether its client has subscribed to anything. */
  isSubscriber = false;
  /** Nothing is read any more. */
  #deaf = false;
  /** The end of one side does not reach the other. */
  #isolated = false;

  constructor(client: Socket, server: Socket, rules: LinkRules) {
    this.#client = client.setNoDelay();
    this.#server = server.setNoDelay();
    this.#rules = rules;
    this.#upstream = new ProxyFlow(server);
    this.#downstream = new ProxyFlow(client);
    const commands = new RespFrames();
    const replies = new RespFrames();
    client.on('data', (chunk: Buffer) => {
      for (const frame of commands.push(chunk)) this.#onCommand(frame);
    });
    server.on('data', (chunk: Buffer) => {
      for (const frame of replies.push(chunk)) this.#onReply(frame);
    });
    for (const socket of [client, server]) {
      socket.on('error', () => undefined);
      socket.on('close', () => {
        if (!this.#isolated) this.cut();
        if (client.closed && server.closed) rules.onEnd();
      });
    }
  }

  setDelay({ upstreamMs, downstreamMs }: { upstreamMs: number; downstreamMs: number }): void {
    this.#upstream.delayMs = upstreamMs;
    this.#downstream.delayMs = downstreamMs;
  }

  /** Ends both sides at once; the client sees a reset. */
  cut(): void {
    this.#close();
    this.#client.resetAndDestroy();
  }

  /** The server's side ends; the client's side stays open and hears nothing any more. */
  halfOpen(): void {
    this.#isolated = true;
    this.#close();
  }

  /** Lets nothing through, not even the end of a connection. */
  isolate(what: Swallowed = 'both'): void {
    this.#isolated = true;
    if (what !== 'downstream') this.#upstream.hold();
    if (what !== 'upstream') this.#downstream.hold();
  }

  /** Undoes isolate(). */
  heal(buffered: 'forward' | 'drop'): void {
    if (this.#deaf) return;
    this.#isolated = false;
    this.#upstream.letGo(buffered);
    this.#downstream.letGo(buffered);
    if (this.#server.destroyed) this.cut();
    else if (this.#client.destroyed) this.#endServer();
  }

  #close(): void {
    this.#deaf = true;
    this.#dropLate();
    this.#upstream.end();
    this.#downstream.end();
    this.#server.destroy();
  }

  #onCommand(frame: Buffer): void {
    if (this.#deaf || this.#last) return;
    const args = commandArguments(frame);
    if (!this.isSubscriber && /^[sp]?subscribe$/i.test(String(args[0]))) {
      this.isSubscriber = true;
      this.#rules.onSubscribe();
    }
    const treatment = this.#rules.treat(frame, args);
    switch (treatment.kind) {
      case 'forward':
        this.#forward(frame);
        treatment.done();
        return;
      case 'refuse':
        this.#forward(evaluated(treatment.instead ?? REFUSAL));
        treatment.done();
        return;
      case 'lose reply':
        this.#last = treatment;
        this.#forward(frame);
        return;
      case 'hold back':
        this.#last = treatment;
        if (this.#unanswered === 0) this.#finish(treatment);
        return;
      case 'cut after forwarding':
        this.#cutAfter(frame);
        treatment.done();
    }
  }

  #onReply(frame: Buffer): void {
    if (this.#deaf) return;
    if (isMessage(frame)) {
      this.#passMessage(this.#rules.rewrite(frame));
      return;
    }
    // No message comes after the answer to an UNSUBSCRIBE.
    if (this.#late.size > 0 && isUnsubscribed(frame)) this.#dropLate();
    this.#unanswered = Math.max(0, this.#unanswered - 1);
    const ends = this.#last && this.#unanswered === 0;
    if (!ends || this.#last?.kind === 'hold back')
      this.#downstream.send(this.#rules.rewrite(frame));
    if (ends && this.#last) this.#finish(this.#last);
  }

  #passMessage(message: Buffer): void {
    const copies = this.#rules.copies(message);
    if (copies instanceof Promise)
      void copies.then((later) => {
        this.#passCopies(message, later);
      });
    else this.#passCopies(message, copies);
  }

  #passCopies(message: Buffer, copies: readonly number[]): void {
    for (const delayMs of copies) {
      if (delayMs === 0) {
        this.#downstream.send(message);
        continue;
      }
      const timer = setTimeout(() => {
        this.#late.delete(timer);
        this.#downstream.send(message);
      }, delayMs);
      this.#late.add(timer);
    }
  }

  #dropLate(): void {
    for (const copy of this.#late) clearTimeout(copy);
    this.#late.clear();
  }

  #forward(frame: Buffer): void {
    this.#unanswered++;
    this.#upstream.send(frame);
  }

  #cutAfter(frame: Buffer): void {
    this.#upstream.send(frame);
    this.#endServer();
    this.#client.resetAndDestroy();
  }

  // An orderly end: a reset could make the server drop what it has not read yet.
  #endServer(): void {
    this.#isolated = true;
    this.#deaf = true;
    this.#server.end();
  }

  #finish(treatment: Treatment): void {
    if (treatment.then === 'silence') this.halfOpen();
    else
      this.#client.end(() => {
        this.cut();
      });
    treatment.done();
  }
}

function evaluated(script: string): Buffer {
  return Buffer.from(`*3\r\n$4\r\nEVAL\r\n$${script.length}\r\n${script}\r\n$1\r\n0\r\n`);
}

// One direction of a proxied connection: passes bytes on in order, late, or not at all.

export class ProxyFlow {
  delayMs = 0;
  readonly #target: Socket;
  #waiting: { bytes: Buffer; dueAt: number }[] = [];
  #held = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(target: Socket) {
    this.#target = target;
  }

  send(bytes: Buffer): void {
    if (this.delayMs === 0 && !this.#held && this.#waiting.length === 0) this.#write(bytes);
    else {
      this.#waiting.push({ bytes, dueAt: performance.now() + this.delayMs });
      this.#pass();
    }
  }

  hold(): void {
    this.#held = true;
    clearTimeout(this.#timer);
  }

  letGo(buffered: 'forward' | 'drop'): void {
    this.#held = false;
    if (buffered === 'drop') this.#waiting = [];
    this.#pass();
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#waiting = [];
  }

  #pass(): void {
    clearTimeout(this.#timer);
    if (this.#held) return;
    while (this.#waiting.length > 0 && this.#waiting[0]!.dueAt <= performance.now()) {
      this.#write(this.#waiting.shift()!.bytes);
    }
    const next = this.#waiting[0];
    if (!next) return;
    this.#timer = setTimeout(() => {
      this.#pass();
    }, next.dueAt - performance.now());
  }

  #write(bytes: Buffer): void {
    if (this.#target.writable) this.#target.write(bytes);
  }
}

// Cuts a byte stream of the Redis protocol (RESP2 and RESP3) into whole frames: commands or replies.

class RespFrames {
  #rest: Buffer = Buffer.alloc(0);

  /** Takes the next bytes of the stream; returns the frames that they completed, unchanged. */
  push(chunk: Buffer): Buffer[] {
    const bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    const frames: Buffer[] = [];
    let start = 0;
    for (let end = frameEnd(bytes, 0); end !== -1; end = frameEnd(bytes, start)) {
      frames.push(bytes.subarray(start, end));
      start = end;
    }
    this.#rest = bytes.subarray(start);
    return frames;
  }
}

/** The arguments of a client's command, which is an array of bulk strings. */
function commandArguments(frame: Buffer): Buffer[] {
  const args: Buffer[] = [];
  for (let start = lineEnd(frame, 0); start < frame.length;) {
    const contentStart = lineEnd(frame, start);
    const contentEnd = contentStart + lengthIn(frame, start);
    args.push(frame.subarray(contentStart, contentEnd));
    start = contentEnd + 2;
  }
  return args;
}

function isUnsubscribed(frame: Buffer): boolean {
  return /^[*>]3\r\n\$\d+\r\n[sp]?unsubscribe\r\n/.test(frame.toString('latin1', 0, 24));
}

/** Whether a server's frame is a pub/sub message, which answers no command. (RESP3 pushes the answer to a SUBSCRIBE, too.) */
function isMessage(frame: Buffer): boolean {
  return /^[*>][34]\r\n\$\d+\r\n[sp]?message\r\n/.test(frame.toString('latin1', 0, 24));
}

/** Where the frame that begins at `start` ends, or -1 when it is not complete yet. */
function frameEnd(bytes: Buffer, start: number): number {
  const afterLine = lineEnd(bytes, start);
  if (afterLine === -1) return -1;
  const length = lengthIn(bytes, start);
  switch (String.fromCharCode(bytes[start]!)) {
    case '$':
    case '!':
    case '=': {
      const end = length < 0 ? afterLine : afterLine + length + 2;
      return end <= bytes.length ? end : -1;
    }
    case '*':
    case '~':
    case '>':
      return elementsEnd(bytes, afterLine, length);
    case '%':
      return elementsEnd(bytes, afterLine, 2 * length);
    default:
      return afterLine;
  }
}

function elementsEnd(bytes: Buffer, start: number, count: number): number {
  let end = start;
  for (let i = 0; i < count && end !== -1; i++) end = frameEnd(bytes, end);
  return end;
}

function lineEnd(bytes: Buffer, start: number): number {
  if (start >= bytes.length) return -1;
  const newline = bytes.indexOf('\r\n', start, 'latin1');
  return newline === -1 ? -1 : newline + 2;
}

function lengthIn(bytes: Buffer, lineStart: number): number {
  return Number(bytes.toString('latin1', lineStart + 1, lineEnd(bytes, lineStart) - 2));
}
