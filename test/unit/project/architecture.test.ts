// The architecture page: every file and every name on it exists.
import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const page = readFileSync('docs/architecture.md', 'utf8');
const spans = [...new Set([...page.matchAll(/`([^`\n]+)`/g)].map(([, text]) => text!))];

const paths = ['src', 'lua', 'test', '.ci']
  .flatMap((room) =>
    readdirSync(room, { recursive: true }).map((path) => `${room}/${String(path)}`),
  )
  .concat(readdirSync('.'), ['src', 'lua', 'holdfast/testing']);
const sources = paths
  .filter((path) => /^src\/.*\.ts$/.test(path) && !path.includes('generated'))
  .map((path) => readFileSync(path, 'utf8'));

const files = spans.filter(
  (text) => /^[\w.-]+(\/[\w.*-]+)*\/?$/.test(text) && /\/|\.(ts|json|mjs)$/.test(text),
);
const names = spans.filter((text) => /^#?[A-Za-z]\w*(\.\w+)?$/.test(text) && !files.includes(text));

it.each(files)('the architecture page names %s, which exists', (file) => {
  const end = file.replace(/\/$/, '').replaceAll('.', '\\.').replaceAll('*', '.*');
  const isIt = new RegExp(`(^|/)${end}$`);
  expect(paths.some((path) => isIt.test(path))).toBe(true);
});

it.each(names)('the architecture page names %s, which is in the code', (name) => {
  const isIn = (text: string): boolean =>
    name.split('.').every((part) => new RegExp(`(?<!\\w)${part}(?!\\w)`).test(text));
  expect(sources.some(isIn) || paths.includes(`lua/${name}.lua`)).toBe(true);
});

it('the architecture page names enough for these tests to be meaningful', () => {
  expect(files.length).toBeGreaterThan(40);
  expect(names.length).toBeGreaterThan(15);
});
