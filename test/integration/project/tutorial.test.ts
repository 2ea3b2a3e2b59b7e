// The tutorial: each step is on the page as it runs here, and prints what the page says.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';
import { afterEach, describe, expect, inject, it } from 'vitest';
import { OUTSIDE_VITEST } from '../../support/child.js';
import { runnable } from '../../support/compiled.js';

const PAGE = readFileSync('docs/tutorial.md', 'utf8');

/** What a process imports that finds holdfast; its child processes get it as well. */
const IMPORTS = ['library-under-test.mjs', 'holdfast-from-source.mjs']
  .map((file) => runnable(new URL(`../../support/${file}`, import.meta.url)))
  .flatMap(({ url, imports }) => [...imports, '--import', url.href]);

/** The numbers that a step prints, in order, and their expected values. */
type Numbers = readonly number[];
type Check = (numbers: Numbers) => boolean;

describe('the tutorial', () => {
  it.each<[step: string, check: Check]>([
    ['step-1.mjs', ([expected, got]) => expected === 400 && got! < 400],
    ['step-2.mjs', ([expected, got]) => expected === 400 && got === 400],
    ['step-3.mjs', ([waitMs, leftMs]) => waitMs === 500 && leftMs! > 20_000],
    ['step-4.mjs', ([, seconds]) => seconds! > 1 && seconds! < 10],
    ['step-5.mjs', () => true],
    ['step-6.mjs', () => true],
    ['step-7.mjs', ([seconds, code]) => seconds! < 10 && code === 0],
  ])(
    '%s prints what the page says',
    async (step, check) => {
      const printed = await outputOf(step);
      expect(withoutNumbers(printed)).toBe(withoutNumbers(shownOutputOf(step)));
      for (const text of [printed, shownOutputOf(step)]) expect(numbersIn(text)).toSatisfy(check);
    },
    60_000,
  );

  // The steps use the names of the page, and none that the clean-up check knows.
  afterEach(async () => {
    const redis = new Redis(inject('redisUrl'));
    const keys = await redis.keys('*tutorial:*');
    if (keys.length > 0) await redis.del(...keys);
    await redis.quit();
  });
});

/** Runs the step, and returns its output; it must print no error, and end well. */
async function outputOf(step: string): Promise<string> {
  const file = fileURLToPath(new URL(`../../tutorial/${step}`, import.meta.url));
  const env = { ...process.env, ...OUTSIDE_VITEST, HOLDFAST_REDIS_URL: inject('redisUrl') };
  const run = promisify(execFile)(process.execPath, [...IMPORTS, file], { env });
  const { stdout, stderr } = await run;
  expect(stderr).toBe('');
  return stdout;
}

/** The first block of output after the step on the page. */
function shownOutputOf(step: string): string {
  const code = `\`\`\`js\n${readFileSync(`test/tutorial/${step}`, 'utf8')}\`\`\`\n`;
  const [, behind, ...more] = PAGE.split(code);
  expect([behind, ...more], `${step} stands on the page once, word for word`).toHaveLength(1);
  const [, shown] = /^```text\n(.*?)^```$/ms.exec(behind ?? '') ?? [];
  expect(shown, `what ${step} prints stands behind it`).toBeDefined();
  return shown ?? '';
}

/** An owner has another host, process and number at each run: `alice-web-1-4711-0123456789ab:1`. */
const ID = /-\S+-\d+-[0-9a-f]{12}:\d+/g;
const NUMBER = /\d+(?:\.\d+)?/g;

function withoutNumbers(text: string): string {
  return text.replace(ID, '-#').replace(NUMBER, '#');
}

function numbersIn(text: string): Numbers {
  return [...text.replace(ID, '').matchAll(NUMBER)].map(Number);
}
