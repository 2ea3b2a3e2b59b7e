// A process that works for a benchmark, seen from inside: WorkerProcess is what it answers to.

/** Says that it is ready, then does what it is told, until the benchmark is gone. */
export function serve(work: (order: never) => Promise<unknown>): void {
  process.on('message', (order) => {
    work(order as never).then(
      (answer) => process.send!(answer),
      (error: unknown) => {
        console.error(error);
        process.exit(1);
      },
    );
  });
  process.on('disconnect', () => process.exit());
  process.send!('ready');
}
