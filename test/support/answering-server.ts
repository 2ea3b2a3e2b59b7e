// A server that is no Redis: it reads whole commands, and answers each as it is told.
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { expectOutages } from './expected-warnings.js';
import { freePort } from './redis-server.js';

/** The answer to a command, as bytes of the protocol; null: hangs up. */
export type Answer = (words: readonly string[]) => string | null;

export interface AnsweringServer extends AsyncDisposable {
  readonly host: string;
  readonly port: number;
  /** The commands that have come, in order. */
  readonly commands: readonly (readonly string[])[];
}

/** Starts one; `greets`: what it says to each connection unasked. */
export async function startAnswering(answer: Answer, greets = ''): Promise<AnsweringServer> {
  expectOutages();
  const commands: string[][] = [];
  const sockets = new Set<Socket>();
  const serve = (socket: Socket): void => {
    sockets.add(socket.on('error', () => undefined).on('close', () => sockets.delete(socket)));
    if (greets) socket.end(greets);
    let text = '';
    socket.setEncoding('latin1').on('data', (data) => {
      text += String(data);
      for (let read = commandIn(text); read; read = commandIn(text)) {
        text = text.slice(read.length);
        commands.push(read.words);
        const reply = answer(read.words);
        if (reply === null) socket.destroy();
        else if (socket.writable) socket.write(reply);
      }
    });
  };
  const server = createServer(serve);
  const host = '127.0.0.1';
  const port = await freePort();
  await once(server.listen(port, host), 'listening');
  return {
    host,
    port,
    commands,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** The first command of a text, which may not be whole yet. */
function commandIn(text: string): { words: string[]; length: number } | undefined {
  const [head = '', count] = /^\*(\d+)\r\n/.exec(text) ?? [];
  const words: string[] = [];
  let length = head.length;
  while (words.length < Number(count)) {
    const [size = '', bytes] = /^\$(\d+)\r\n/.exec(text.slice(length)) ?? [];
    const from = length + size.length;
    if (bytes === undefined || text.length < from + Number(bytes) + 2) return undefined;
    words.push(text.slice(from, from + Number(bytes)));
    length = from + Number(bytes) + 2;
  }
  return head === '' ? undefined : { words, length };
}
