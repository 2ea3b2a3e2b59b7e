// The child's side of child.ts: messages to and from the test that started this process.

export interface ChildMessage {
  readonly type: string;
  readonly [key: string]: unknown;
}

/** Tells the test something. */
export function tell(type: string, content: Record<string, unknown> = {}): void {
  process.send?.({ ...content, type });
}

/** Calls `handler` for each message of the test; what it throws is told as "failed", with its name and code. */
export function onMessage(handler: (message: ChildMessage) => unknown): void {
  process.on('message', (message) => {
    Promise.resolve(message as ChildMessage)
      .then(handler)
      .catch((error: unknown) => {
        const { name, message: text, code } = error as Error & { code?: string };
        tell('failed', { name, message: text, code });
      });
  });
}

/** Lets the process end by itself, as it would without a test listening. */
export function stopListening(): void {
  process.removeAllListeners('message');
  process.disconnect();
}

// When the test process is gone, so is the reason to run.
process.once('disconnect', () => {
  if (process.listenerCount('message') > 0) process.exit(1);
});
