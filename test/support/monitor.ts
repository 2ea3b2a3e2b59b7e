// What a Redis server executes, line by line, by MONITOR on a plain socket: ioredis loses track of its replies when the first
// lines come together with the answer to MONITOR.
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';

export interface MonitoredCommand {
  readonly words: readonly string[];
  /** Whether a script ran it. */
  readonly byScript: boolean;
}

const LINE = /^\+\d+\.\d+ \[\d+ (\S+)\] (.*)$/;

export class Monitor implements Disposable {
  readonly #socket: Socket;

  private constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Calls back on every command that is executed from now on. */
  static async start(
    url: string,
    onCommand: (command: MonitoredCommand) => void,
  ): Promise<Monitor> {
    const { hostname, port } = new URL(url);
    const socket = connect(Number(port), hostname);
    const lines = createInterface(socket);
    const started = once(lines, 'line');
    socket.write('MONITOR\r\n');
    await started;
    lines.on('line', (line) => {
      const [, source, words = ''] = LINE.exec(line) ?? [];
      if (source) onCommand({ words: unquoted(words), byScript: source === 'lua' });
    });
    return new Monitor(socket);
  }

  [Symbol.dispose](): void {
    this.#socket.destroy();
  }
}

function unquoted(words: string): string[] {
  return [...words.matchAll(/"((?:\\.|[^"\\])*)"/g)].map(([, word = '']) =>
    word.replace(/\\(x..|.)/g, (_, code: string) => {
      if (code.startsWith('x')) return String.fromCharCode(parseInt(code.slice(1), 16));
      return { n: '\n', r: '\r', t: '\t', a: '\x07', b: '\b' }[code] ?? code;
    }),
  );
}
