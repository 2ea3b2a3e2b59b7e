// What this process writes to its sockets while something runs, each system call for itself.
import { Socket } from 'node:net';
import { vi } from 'vitest';

type Write = (this: Socket, ...args: unknown[]) => void;

/** The writes during `fn`, as text. */
export async function socketWrites(fn: () => Promise<unknown>): Promise<string[]> {
  const writes: string[] = [];
  const prototype = Socket.prototype as unknown as Record<'_write' | '_writev', Write>;
  const record = (
    name: keyof typeof prototype,
    asText: (data: unknown) => string,
  ): (() => void) => {
    const write = Reflect.get(prototype, name);
    const spy = vi.spyOn(prototype, name).mockImplementation(function (this: Socket, ...args) {
      writes.push(asText(args[0]));
      write.apply(this, args);
    });
    return () => {
      spy.mockRestore();
    };
  };
  const restore = [
    record('_write', String),
    record('_writev', (chunks) =>
      (chunks as { chunk: unknown }[]).map(({ chunk }) => String(chunk)).join(''),
    ),
  ];
  try {
    await fn();
    return writes;
  } finally {
    for (const undo of restore) undo();
  }
}
