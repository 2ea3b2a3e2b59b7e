// How much memory does one who waits take, and is all of it freed when he gives up? Beside the lock that is not fair.

import type { BenchmarkContext } from '../support/benchmark.js';
import type { HeapAnswer, HeapOrder } from '../support/heap-messages.js';
import { interleaved } from '../support/interleaved.js';
import { formatRatio, median, pairedRatio } from '../support/statistics.js';
import { printTable } from '../support/table.js';
import { WorkerProcess } from '../support/worker-process.js';

const WAITERS = 5_000;

type Kind = HeapOrder['kind'];
const KINDS: readonly Kind[] = ['reentrant', 'fair'];

export async function memory({ url, keyPrefix, isSmoke }: BenchmarkContext): Promise<void> {
  using worker: WorkerProcess<HeapOrder, HeapAnswer> = await WorkerProcess.start(
    'waiters-worker.ts',
    url,
    ['--expose-gc'],
  );
  const name = `${keyPrefix}memory`;
  const answers = await interleaved(KINDS, isSmoke ? 1 : 5, (kind) =>
    worker.ask({ kind, name: `${name}:${kind}`, waiters: WAITERS }),
  );
  const perWaiter = (kind: Kind): number[] => answers.get(kind)!.map((answer) => answer.perWaiter);
  console.log(
    `\nfair: heap of a client per waiter, ${WAITERS.toLocaleString('en')} of them waiting`,
  );
  printTable([
    ['', 'bytes', 'x reentrant', 'left when all gave up'],
    ...KINDS.map((kind) => [
      `holdfast, ${kind} lock`,
      median(perWaiter(kind)).toFixed(0),
      formatRatio(pairedRatio(perWaiter(kind), perWaiter('reentrant'))),
      median(answers.get(kind)!.map(({ left }) => left)).toFixed(0),
    ]),
  ]);
}
