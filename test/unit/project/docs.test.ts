// The README and the pages of the docs tell the truth: their links lead somewhere, their code type-checks, their commands are run by a test.
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { COPIES, NAV, SIDEBAR } from '../../../docs/.vitepress/menu.js';
import * as holdfast from '../../../src/index.js';
import {
  blocksOf,
  brokenLinks,
  commandsOf,
  htmlOf,
  leadingOut,
  missingPictures,
  pageOf,
  typeErrors,
  unknownScripts,
  WRONG_PAGE,
  writtenPages,
} from '../../support/pages.js';

/** What a page tells its reader to type, and who runs it, if need be with other arguments: a file, and its words. */
const RUN: readonly (readonly [line: RegExp, file: string, words: string])[] = [
  [/^npm test$/, '.ci/run', 'step node scripts/test.mjs'],
  [/^npm run bench( |$)/, '.ci/run', 'npm run --silent bench -- --smoke'],
  [/^npm run chaos( |$)/, '.ci/run', 'npm run --silent chaos --'],
  [/^npm run simulate( |$)/, '.ci/run', 'npm run --silent simulate --'],
  [/^npm run model( |$)/, '.ci/run', 'npm run --silent model'],
  [/^npm run demo( |$)/, 'test/integration/project/demo.test.ts', 'scripts/demo.mjs'],
];

/** What no test runs, and why not. */
const NOT_RUN: readonly (readonly [line: RegExp, reason: string])[] = [
  [/^npm install holdfast/, 'not published yet; package.test.ts installs what would be'],
  [/^npm install @opentelemetry\/api$/, 'the tests have it'],
  [/^docker compose --profile observe up$/, 'fetches images; observe.test.ts checks what they get'],
  [/^npm install && npm pack$/, 'package.test.ts packs, and installs the package in a project'],
  [/^npm install \.\.\/holdfast\//, 'package.test.ts packs, and installs the package in a project'],
  [/^npx holdfast /, 'the tests in integration/cli call each verb, on locks of their own'],
  [
    /^HOLDFAST_REDIS_URL=\S+ npx holdfast /,
    'asks a Redis that the reader has; the tests in integration/cli ask their own',
  ],
  [/^redis-cli /, 'asks a server that the reader has, about locks that are held there'],
  [/^npx esbuild /, "bundles the reader's program; package.test.ts bundles one"],
  [/^NODE_OPTIONS=\S+ npx jest$/, 'Jest is not installed here'],
  [/^HOLDFAST_FAILOVER_ROUNDS=/, 'more rounds of a test than fit into a run of all tests'],
];

const pages = writtenPages();

describe('the pages', () => {
  it('are there', () => {
    expect(pages.map(({ path }) => path)).toEqual(
      expect.arrayContaining(['README.md', 'CONTRIBUTING.md', 'lua/README.md', 'docs/index.md']),
    );
  });

  it('link to files and headings that exist', () => {
    expect(brokenLinks(pages)).toEqual([]);
  });

  it('show pictures that exist', () => {
    expect(missingPictures(pages)).toEqual([]);
  });

  it('show their diagrams as pictures in the site', () => {
    const withDiagrams = pages.filter(({ text }) => text.includes('```mermaid'));
    expect(withDiagrams).not.toEqual([]);
    const html = withDiagrams.map(htmlOf).join();
    expect(html).toContain('<img src="data:image/svg+xml,');
    expect(html).not.toMatch(/language-mermaid/);
  });

  it('name scripts that exist', () => {
    expect(unknownScripts(pages)).toEqual([]);
  });

  it('show code that type-checks', () => {
    expect(typeErrors(blocksOf(pages, 'ts'))).toEqual([]);
  }, 120_000);

  it.each(readdirSync('test/recipes'))('show test/recipes/%s as it is run', (file) => {
    const recipe = readFileSync(`test/recipes/${file}`, 'utf8');
    const shown = blocksOf(pages, 'ts').map(({ code }) => code);
    const imported = recipe
      .replace("'../../src/index.js'", "'holdfast'")
      .replace(/'\.\.\/\.\.\/src\/adapters\/(.*)\.js'/, "'holdfast/$1'");
    expect(shown).toContain(imported);
  });
});

const PACK = { encoding: 'utf8', shell: process.platform === 'win32' } as const;
const args = ['pack', '--dry-run', '--json', '--ignore-scripts'];
const [{ files }] = JSON.parse(execFileSync('npm', args, PACK)) as [{ files: { path: string }[] }];
const packed = new Set(files.map(({ path }) => path));
const packedPages = pages.filter(({ path }) => packed.has(path));

describe('the packed package', () => {
  it('has the README and all pages of the docs', () => {
    const docs = pages.filter(({ path }) => path === 'README.md' || path.startsWith('docs/'));
    expect(docs.filter(({ path }) => !packed.has(path))).toEqual([]);
  });

  it('has all that its pages link to and show', () => {
    expect(leadingOut(packedPages, packed)).toEqual([]);
  });
});

describe('the help of an error', () => {
  const classes = Object.values(holdfast).filter(
    (value) => typeof value === 'function' && value.prototype instanceof holdfast.HoldfastError,
  ) as (new (message: string, context: object) => holdfast.HoldfastError)[];

  it('is there for all of them', () => {
    expect(classes.length).toBeGreaterThanOrEqual(10);
  });

  it.each(classes.map((each) => [each.name, each]))(
    '%s names a section of a packed page',
    (_, each) => {
      const { code, help } = new each('', {});
      const [file, anchor = ''] = help.split('#');
      const page = packedPages.find(({ path }) => path === file);
      expect(anchor).toBe(code.toLowerCase().replaceAll('_', '-'));
      for (const anchors of page?.anchors ?? [new Set()]) expect(anchors).toContain(anchor);
    },
  );
});

describe('what the pages tell to type', () => {
  const commands = commandsOf(pages);
  const listed = [...RUN, ...NOT_RUN].map(([line]) => line);

  it('is run by a test, or is listed with a reason', () => {
    const isListed = (command: string): boolean => listed.some((line) => line.test(command));
    expect(commands.filter((command) => !isListed(command))).toEqual([]);
  });

  it.each(RUN)('is run: %s', (_line, file, words) => {
    expect(readFileSync(file, 'utf8')).toContain(words);
  });

  it('is all that is listed', () => {
    const isTold = (line: RegExp): boolean => commands.some((command) => line.test(command));
    expect(listed.filter((line) => !isTold(line))).toEqual([]);
  });
});

describe('the menu of the site', () => {
  const listed = linksIn([NAV, SIDEBAR]).filter((link) => !link.startsWith('/reference/api/'));

  it('has every page', () => {
    const written = pages.map(({ path }) => path).filter((path) => path.startsWith('docs/'));
    const all = [...written.map((path) => path.slice('docs/'.length)), ...Object.values(COPIES)];
    const home = 'index.md';
    expect([...new Set(listed)].sort()).toEqual(
      all
        .filter((path) => path !== home)
        .map((path) => `/${path}`)
        .sort(),
    );
  });

  it('opens the first page of a part from the bar', () => {
    const menu = linksIn((SIDEBAR as Record<string, unknown>)['/']);
    for (const link of linksIn(NAV)) {
      const part = link.slice(0, link.lastIndexOf('/') + 1);
      expect(link).toBe(menu.find((each) => each.startsWith(part)));
    }
  });

  it('copies pages that exist', () => {
    expect(Object.keys(COPIES).filter((file) => !existsSync(file))).toEqual([]);
  });

  it('is that of the home page, too', () => {
    const home = pages.find(({ path }) => path === 'docs/index.md')?.text ?? '';
    const links = [...home.matchAll(/^ +link: (\S+)$/gm)].map(([, link]) => link);
    expect(links).not.toEqual([]);
    expect(links.filter((link = '') => !listed.includes(link))).toEqual([]);
  });

  function linksIn(menu: unknown): string[] {
    const links: string[] = [];
    JSON.stringify(menu, (key, value: unknown) => {
      if (key === 'link' && typeof value === 'string') links.push(value);
      return value;
    });
    return links;
  }
});

describe('a page that is wrong', () => {
  const wrong = [
    pageOf('docs/how-to/wrong.md', readFileSync(WRONG_PAGE, 'utf8')),
    pageOf('docs/how-to/right.md', '# Right\n\n## Lock timeout\n\n## `hold.run(fn)`\n'),
  ];

  it('has broken links', () => {
    expect(brokenLinks(wrong)).toEqual([
      'docs/how-to/wrong.md:9: nowhere.md: no such file',
      'docs/how-to/wrong.md:10: right.md#nowhere: no such heading, on GitHub or in the site',
      'docs/how-to/wrong.md:11: right.md#hold-run-fn: no such heading, on GitHub or in the site',
      'docs/how-to/wrong.md:12: #nowhere: no such heading, on GitHub or in the site',
    ]);
  });

  it('has pictures that are missing', () => {
    expect(missingPictures(wrong)).toEqual([
      'docs/how-to/wrong.md:14: nowhere.svg: no such picture',
      'docs/how-to/wrong.md:16: ../nowhere-dark.svg: no such picture',
      'docs/how-to/wrong.md:16: ../nowhere.svg: no such picture',
    ]);
  });

  it('names scripts that nobody wrote', () => {
    expect(unknownScripts(wrong)).toEqual([
      'docs/how-to/wrong.md: npm run --silent nothing-else: no such script',
      'docs/how-to/wrong.md: npm run nothing: no such script',
    ]);
  });

  it('has code that does not type-check', () => {
    expect(typeErrors(blocksOf(wrong, 'ts'))).toEqual([
      expect.stringMatching(/^docs\/how-to\/wrong\.md:23, line 2: .*'timeout' does not exist in/),
      expect.stringMatching(
        /^docs\/how-to\/wrong\.md:28, line 1: .* no exported member named 'Lok'/,
      ),
    ]);
  }, 120_000);

  it('tells to type what nobody has tried', () => {
    expect(commandsOf(wrong)).toEqual(['npm run nothing', 'rm -rf dist && npm test']);
  });
});
