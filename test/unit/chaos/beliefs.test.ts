// When a holder believed, and from when it did not, if it was stopped in the middle of the query.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { machineMs } from '../../support/time.js';
import type { Hold } from '../../../src/index.js';
import { MACHINE_TIME } from '../../chaos/worker/time.js';
import { Beliefs } from '../../chaos/worker/section.js';
import { FileJournal, type Entry } from '../../chaos/worker/journal.js';

const STOPPED_MS = 20;

/** A hold whose process is stopped during the query. */
function stoppedHold(leftMs: number): Hold {
  const aborter = new AbortController();
  const hold = {
    remaining: () => {
      const until = machineMs() + STOPPED_MS;
      while (machineMs() < until);
      if (leftMs === 0) aborter.abort();
      return leftMs;
    },
    signal: aborter.signal,
  };
  return hold as unknown as Hold;
}

function noted(leftMs: number): { from: number; to: number; entry: Entry | undefined } {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-beliefs-'));
  try {
    const path = join(folder, 'journal');
    const from = machineMs();
    new Beliefs(new FileJournal(path), MACHINE_TIME).look('a', stoppedHold(leftMs));
    const to = machineMs();
    const [entry] = readFileSync(path, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Entry);
    return { from, to, entry };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

it('a stopped holder believes from before the query', () => {
  const { to, entry } = noted(500);
  expect(entry).toMatchObject({ what: 'believes', leftMs: 500 });
  expect(to - entry!.at).toBeGreaterThanOrEqual(STOPPED_MS);
});

it('a stopped holder doubts from its answer on', () => {
  const { from, entry } = noted(0);
  expect(entry).toMatchObject({ what: 'doubts', contradicts: false });
  expect(entry!.at - from).toBeGreaterThanOrEqual(STOPPED_MS);
});
