// The README tells the truth: its code type-checks against this source, its commands and links exist.

import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../..', import.meta.url));
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

function problems(code: string): string[] {
  const file = `${root}readme-block.ts`;
  const { config } = ts.readConfigFile(`${root}tsconfig.json`, (path) => ts.sys.readFile(path)) as {
    config: { compilerOptions: object };
  };
  const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, root);
  options.paths = { holdfast: [`${root}src/index.ts`] };
  const disk = ts.createCompilerHost(options);
  const host: ts.CompilerHost = {
    ...disk,
    fileExists: (path) => path === file || disk.fileExists(path),
    readFile: (path) => (path === file ? code : disk.readFile(path)),
    getSourceFile: (path, target) =>
      path === file ? ts.createSourceFile(path, code, target) : disk.getSourceFile(path, target),
  };
  const program = ts.createProgram([file], options, host);
  return ts
    .getPreEmitDiagnostics(program, program.getSourceFile(file))
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'));
}

describe('the README', () => {
  const code = blocks('ts');

  it('has code', () => {
    expect(code.length).toBeGreaterThan(5);
  });

  it.each(code.map((block): [string, string] => [block.split('\n', 1)[0] ?? '', block]))(
    'type-checks: %s',
    (_, block) => {
      expect(problems(withPrelude(block))).toEqual([]);
    },
    30_000,
  );

  it('would notice a mistake', () => {
    expect(problems(withPrelude('await lock.acquire({ timeout: 1 });'))).not.toEqual([]);
  }, 30_000);

  it('names commands that exist', () => {
    const { scripts } = JSON.parse(readFileSync(`${root}package.json`, 'utf8')) as {
      scripts: Record<string, string>;
    };
    const named = [...readme.matchAll(/npm run ([\w:]+)/g)].map(([, name]) => name);
    expect(named.length).toBeGreaterThan(0);
    expect(Object.keys(scripts)).toEqual(expect.arrayContaining(named));
  });

  it('links to files that exist', () => {
    const links = [...readme.matchAll(/\]\(([^):#]+)\)/g)].map(([, path]) => path ?? '');
    expect(links.length).toBeGreaterThan(0);
    expect(links.filter((path) => !existsSync(root + path))).toEqual([]);
  });
});
