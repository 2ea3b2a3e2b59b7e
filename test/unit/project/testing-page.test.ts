// docs/how-to/testing.md shows its examples as they are run: by vitest in test/unit/testing/page/, and here by node:test.
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const PAGE = 'test/unit/testing/page';

const examples = readdirSync(PAGE).map((file) =>
  readFileSync(`${PAGE}/${file}`, 'utf8')
    .replace("'../../../../src/index.js'", "'holdfast'")
    .replace("'../../../../src/testing/memory-redis.js'", "'holdfast/testing'"),
);

it('docs/how-to/testing.md shows the examples that are run', () => {
  const page = readFileSync('docs/how-to/testing.md', 'utf8');
  const shown = [...page.matchAll(/^```ts\n(.*?)^```/gms)].map(([, code]) => code);
  expect([...shown].sort()).toEqual([...examples].sort());
});

it('its example for node:test passes', async () => {
  const args = ['--import', 'tsx', '--test-reporter=tap', '--test', `${PAGE}/report.node-test.ts`];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  expect(stdout).toContain('# pass 1');
}, 60_000);
