// Pages of Markdown, read as the docs site reads them: their headings, links, pictures and code, and what is wrong with these.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import GithubSlugger from 'github-slugger';
import ts from 'typescript';
import { createMarkdownRenderer } from 'vitepress';
import site from '../../docs/.vitepress/config.js';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** What is generated, which is there only after a build, which checks it; and what others wrote. */
const GENERATED = /^docs\/(reference\/api|project)\/|\/node_modules\//;

/** A page with one of each mistake. */
export const WRONG_PAGE = 'test/support/wrong-page.md';

/** A block of code, by the word behind its fence. */
export interface Block {
  readonly language: string;
  readonly code: string;
  /** Where it stands: `README.md:17`. */
  readonly place: string;
}

interface Reference {
  readonly to: string;
  readonly place: string;
}

/** A page, by its path in the repository. */
export interface Page {
  readonly path: string;
  readonly text: string;
  readonly links: readonly Reference[];
  readonly pictures: readonly Reference[];
  readonly blocks: readonly Block[];
  /** The anchors of its headings: on GitHub, and in the docs site, where the page is there. */
  readonly anchors: readonly ReadonlySet<string>[];
}

// No colours of code are needed, and setting them up takes seconds.
const markdown = await createMarkdownRenderer(`${root}docs`, {
  ...site.markdown,
  highlight: (code) => code,
});

/** All pages of the repository that somebody wrote. */
export function writtenPages(): Page[] {
  const inFolders = ['benchmarks', 'docs', 'lua', 'test'].flatMap((folder) =>
    readdirSync(root + folder, { recursive: true, encoding: 'utf8' }).map(
      (file) => `${folder}/${file}`,
    ),
  );
  return [...readdirSync(root), ...inFolders]
    .filter((path) => path.endsWith('.md') && path !== WRONG_PAGE && !GENERATED.test(path))
    .map((path) => pageOf(path, readFileSync(root + path, 'utf8')));
}

/** A page as the site shows it. */
export function htmlOf({ text }: Page): string {
  return markdown.render(text);
}

export function pageOf(path: string, text: string): Page {
  const links: Reference[] = [];
  const pictures: Reference[] = [];
  const blocks: Block[] = [];
  const onGitHub = new Set<string>();
  const inSite = new Set<string>();
  const slugger = new GithubSlugger();
  let line = 0;
  let isHeading = false;
  const here = (to: string): Reference => ({ to, place: `${path}:${line}` });
  const picturesOf = (html: string): void => {
    for (const [, to = ''] of html.matchAll(/ src(?:set)?="([^"]+)"/g)) pictures.push(here(to));
  };
  for (const token of markdown.parse(withoutFrontmatter(text), {})) {
    if (token.map) line = token.map[0] + 1;
    if (token.type === 'html_block') picturesOf(token.content);
    if (token.type === 'fence') {
      const [language = ''] = /^\w*/.exec(token.info) ?? [];
      blocks.push({ language, code: token.content, place: `${path}:${line}` });
    }
    if (token.type === 'heading_open') inSite.add(token.attrGet('id') ?? '');
    const children = token.children ?? [];
    if (isHeading) {
      const words = children.filter(({ type }) => type === 'text' || type === 'code_inline');
      onGitHub.add(
        slugger.slug(
          words
            .map(({ content }) => content)
            .join('')
            .trim(),
        ),
      );
    }
    isHeading = token.type === 'heading_open';
    for (const child of children) {
      if (child.type === 'html_inline') picturesOf(child.content);
      if (child.type === 'image') pictures.push(here(child.attrGet('src') ?? ''));
      const isLink = child.type === 'link_open' && child.attrGet('class') !== 'header-anchor';
      if (isLink) links.push(here(child.attrGet('href') ?? ''));
      if (child.type.endsWith('break')) line += 1;
    }
  }
  const anchors = path.startsWith('docs/') ? [onGitHub, inSite] : [onGitHub];
  return { path, text, links, pictures, blocks, anchors };
}

/** Its lines are kept, so that those below have their numbers. */
function withoutFrontmatter(text: string): string {
  return text.replace(/^---\n.*?\n---\n/s, (frontmatter) => frontmatter.replace(/.*/g, ''));
}

// What is wrong with them, each by its place.

/** Links to files and to headings that do not exist. */
export function brokenLinks(pages: readonly Page[]): string[] {
  const byPath = new Map(pages.map((page) => [page.path, page]));
  return pages.flatMap((page) =>
    page.links.flatMap(({ to, place }) => {
      if (isElsewhere(to)) return [];
      const [path = '', anchor] = decodeURI(to).split('#');
      const target = path === '' ? page.path : besides(page, path);
      if (!byPath.has(target) && !GENERATED.test(target) && !existsSync(root + target)) {
        return [`${place}: ${to}: no such file`];
      }
      const anchors = byPath.get(target)?.anchors ?? [];
      const isThere = anchor === undefined || anchors.every((known) => known.has(anchor));
      return isThere ? [] : [`${place}: ${to}: no such heading, on GitHub or in the site`];
    }),
  );
}

export function missingPictures(pages: readonly Page[]): string[] {
  return pages.flatMap((page) =>
    page.pictures
      .filter(({ to }) => !isElsewhere(to) && !existsSync(root + besides(page, to)))
      .map(({ to, place }) => `${place}: ${to}: no such picture`),
  );
}

/** Links and pictures that lead to a file which is not one of these. */
export function leadingOut(pages: readonly Page[], files: ReadonlySet<string>): string[] {
  return pages.flatMap((page) =>
    [...page.links, ...page.pictures]
      .filter(({ to }) => !isElsewhere(to) && !to.startsWith('#'))
      .filter(({ to }) => !files.has(besides(page, decodeURI(to).split('#')[0] ?? '')))
      .map(({ to, place }) => `${place}: ${to}`),
  );
}

/** `npm run` of scripts that package.json does not have. */
export function unknownScripts(pages: readonly Page[]): string[] {
  const { scripts } = JSON.parse(readFileSync(`${root}package.json`, 'utf8')) as {
    scripts: Record<string, string>;
  };
  return pages.flatMap(({ path, text }) =>
    [...text.matchAll(/npm run (?:--silent )?([\w:-]+)/g)]
      .filter(([, name = '']) => !(name in scripts))
      .map(([named]) => `${path}: ${named}: no such script`),
  );
}

function isElsewhere(target: string): boolean {
  return /^[a-z][a-z+.-]*:/i.test(target);
}

function besides(page: Page, path: string): string {
  return posix.join(posix.dirname(page.path), path);
}

// Code: TypeScript, and what is typed into a shell.

export function blocksOf(pages: readonly Page[], language: string): Block[] {
  return pages.flatMap(({ blocks }) => blocks.filter((block) => block.language === language));
}

/** The lines to type, without what stands behind a `#`. */
export function commandsOf(pages: readonly Page[]): string[] {
  return blocksOf(pages, 'sh')
    .flatMap(({ code }) => code.split('\n'))
    .map((line) => line.replace(/(^|\s+)#.*$/, '').trim())
    .filter((line) => line !== '');
}

/** What a block may use without saying where it comes from. */
const PRELUDE = {
  holdfast: 'declare const holdfast: import("holdfast").Holdfast;',
  lock: 'declare const lock: import("holdfast").Lock;',
};

/** Where examples that import each other are run: blocks with such an import are read as files of this folder. */
const EXAMPLES = 'test/unit/testing/page/';

/** What the compiler says of each block; all are one program, so that the library is read once. */
export function typeErrors(blocks: readonly Block[]): string[] {
  const folderOf = ({ code }: Block): string => (code.includes(" from './") ? EXAMPLES : '');
  const files = new Map(
    blocks.map((block, index) => [`${root}${folderOf(block)}block-${index}.ts`, block]),
  );
  const { config } = ts.readConfigFile(`${root}tsconfig.json`, (path) => ts.sys.readFile(path)) as {
    config: { compilerOptions: object };
  };
  const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, root);
  options.erasableSyntaxOnly = false; // that is a rule of this repository
  options.paths = {
    holdfast: [`${root}src/index.ts`],
    'holdfast/testing': [`${root}src/testing/memory-redis.ts`],
    'holdfast/opentelemetry': [`${root}src/telemetry/opentelemetry.ts`],
    'holdfast/*': [`${root}src/adapters/*.ts`],
  };
  const disk = ts.createCompilerHost(options);
  const textOf = (path: string): string | undefined => {
    const block = files.get(path);
    return block && withPrelude(block.code);
  };
  const host: ts.CompilerHost = {
    ...disk,
    fileExists: (path) => files.has(path) || disk.fileExists(path),
    readFile: (path) => textOf(path) ?? disk.readFile(path),
    getSourceFile: (path, target) => {
      const text = textOf(path);
      return text === undefined
        ? disk.getSourceFile(path, target)
        : ts.createSourceFile(path, text, target);
    },
  };
  const program = ts.createProgram([...files.keys()], options, host);
  return [...files].flatMap(([path, { place, code }]) =>
    ts.getPreEmitDiagnostics(program, program.getSourceFile(path)).map(({ messageText, start }) => {
      const line = withPrelude(code).slice(0, start).split('\n').length - 1;
      const words = ts.flattenDiagnosticMessageText(messageText, '\n');
      return `${place}, line ${line}: ${words}`;
    }),
  );
}

function withPrelude(code: string): string {
  const declarations = Object.entries(PRELUDE)
    .filter(([name]) => !new RegExp(`\\b(const|let|using) ${name}\\b`).test(code))
    .map(([, declaration]) => declaration);
  return `${declarations.join(' ')} export {};\n${code}`;
}
