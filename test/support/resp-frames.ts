// Cuts a byte stream of the Redis protocol (RESP2 and RESP3) into whole frames: commands or replies.

export class RespFrames {
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
export function commandArguments(frame: Buffer): Buffer[] {
  const args: Buffer[] = [];
  for (let start = lineEnd(frame, 0); start < frame.length;) {
    const contentStart = lineEnd(frame, start);
    const contentEnd = contentStart + lengthIn(frame, start);
    args.push(frame.subarray(contentStart, contentEnd));
    start = contentEnd + 2;
  }
  return args;
}

/** Whether a server's frame is a pub/sub message, which answers no command. */
export function isMessage(frame: Buffer): boolean {
  const head = frame.toString('latin1', 0, 24);
  return head.startsWith('>') || /^\*[34]\r\n\$\d+\r\n[sp]?message\r\n/.test(head);
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
