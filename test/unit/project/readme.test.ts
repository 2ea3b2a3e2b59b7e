// The README tells the truth: its code type-checks against this source, its commands and links exist.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const readme = readFileSync(`${root}README.md`, 'utf8');

/** What a block may use without saying where it comes from. */
const PRELUDE = {
  holdfast: 'declare const holdfast: import("holdfast").Holdfast;',
  lock: 'declare const lock: import("holdfast").Lock;',
};

function blocks(language: string): string[] {
  return [...readme.matchAll(new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\``, 'gms'))].map(
    ([, code]) => code ?? '',
  );
}

function withPrelude(code: string): string {
  const declarations = Object.entries(PRELUDE)
    .filter(([name]) => !new RegExp(`\\b(const|using) ${name}\\b`).test(code))
    .map(([, declaration]) => declaration);
  return `${declarations.join(' ')} export {};\n${code}`;
}

/** What is wrong with each piece of code; all are one program, so that the library is read once. */
function problems(pieces: readonly string[]): string[][] {
  const files = new Map(pieces.map((code, index) => [`${root}readme-block-${index}.ts`, code]));
  const { config } = ts.readConfigFile(`${root}tsconfig.json`, (path) => ts.sys.readFile(path)) as {
    config: { compilerOptions: object };
  };
  const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, root);
  options.paths = { holdfast: [`${root}src/index.ts`] };
  const disk = ts.createCompilerHost(options);
  const host: ts.CompilerHost = {
    ...disk,
    fileExists: (path) => files.has(path) || disk.fileExists(path),
    readFile: (path) => files.get(path) ?? disk.readFile(path),
    getSourceFile: (path, target) => {
      const code = files.get(path);
      return code === undefined
        ? disk.getSourceFile(path, target)
        : ts.createSourceFile(path, code, target);
    },
  };
  const program = ts.createProgram([...files.keys()], options, host);
  return [...files.keys()].map((file) =>
    ts
      .getPreEmitDiagnostics(program, program.getSourceFile(file))
      .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n')),
  );
}

/** As GitHub makes it of a title. */
function anchor(title: string): string {
  return title
    .toLowerCase()
    .replace(/[^\w\- ]/g, '')
    .replaceAll(' ', '-');
}

describe('the README', () => {
  const code = blocks('ts');

  it('has code', () => {
    expect(code.length).toBeGreaterThan(5);
  });

  it('has code that type-checks', () => {
    const found = problems(code.map(withPrelude));
    const wrong = code.flatMap((block, index) =>
      found[index]!.length > 0 ? [{ block, problems: found[index] }] : [],
    );
    expect(wrong).toEqual([]);
  }, 60_000);

  it.each(readdirSync(`${root}test/recipes`))('shows test/recipes/%s as it is run', (file) => {
    const recipe = readFileSync(`${root}test/recipes/${file}`, 'utf8');
    expect(code).toContain(recipe.replace("'../../src/index.js'", "'holdfast'"));
  });

  it('would notice a mistake', () => {
    expect(problems([withPrelude('await lock.acquire({ timeout: 1 });')])).not.toEqual([[]]);
  }, 30_000);

  it('names commands that exist', () => {
    const { scripts } = JSON.parse(readFileSync(`${root}package.json`, 'utf8')) as {
      scripts: Record<string, string>;
    };
    const named = [...readme.matchAll(/npm run ([\w:]+)/g)].map(([, name]) => name);
    expect(named.length).toBeGreaterThan(0);
    expect(Object.keys(scripts)).toEqual(expect.arrayContaining(named));
  });

  it('links to chapters that exist, and lists all of them', () => {
    const chapters = [...readme.matchAll(/^## (.+)$/gm)].map(([, title]) => anchor(title ?? ''));
    const links = [...readme.matchAll(/\]\(#([^)]+)\)/g)].map(([, link]) => link ?? '');
    expect(links.filter((link) => !chapters.includes(link))).toEqual([]);
    expect(chapters.filter((chapter) => !links.includes(chapter) && chapter !== 'more')).toEqual(
      [],
    );
  });

  it('links to files that exist', () => {
    const links = [...readme.matchAll(/\]\(([^):#]+)\)/g)].map(([, path]) => path ?? '');
    expect(links.length).toBeGreaterThan(0);
    expect(links.filter((path) => !existsSync(root + path))).toEqual([]);
  });

  it('shows pictures that exist', () => {
    const pictures = [...readme.matchAll(/ src(?:set)?="([^":]+)"/g)].map(([, path]) => path ?? '');
    expect(pictures.length).toBeGreaterThan(0);
    expect(pictures.filter((path) => !existsSync(root + path))).toEqual([]);
  });
});
