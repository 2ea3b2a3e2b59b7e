// Compiles the sources once per test run, for the processes that tests start: with tsx each would compile them again, and take three times as
// long to start.
import {
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FOLDERS = ['src', 'test/support', 'test/recipes'];
/** Tells the processes of a test run where the compiled sources are. */
const VARIABLE = 'HOLDFAST_TEST_COMPILED';

/** Compiles them, if another project of this run has not done so, into a folder that ends with this process. */
export async function compileSources(): Promise<void> {
  if (process.env[VARIABLE] !== undefined) return;
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-compiled-'));
  process.env[VARIABLE] = folder;
  process.once('exit', () => {
    rmSync(folder, { recursive: true, force: true });
  });
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  cpSync(join(ROOT, 'package.json'), join(folder, 'package.json'));
  for (const from of FOLDERS)
    cpSync(join(ROOT, from), join(folder, from), {
      recursive: true,
      filter: (file) => !file.endsWith('.ts') && !file.includes('nest-11'),
    });
  // Imported here and not above: loading TypeScript takes a second, and many test files import this module.
  const { ModuleKind, ScriptTarget, transpileModule } = await import('typescript');
  // The options of tsconfig.json that change the emitted code.
  const compilerOptions = {
    target: ScriptTarget.ES2023,
    module: ModuleKind.ESNext,
    verbatimModuleSyntax: true,
    experimentalDecorators: true,
  };
  for (const file of FOLDERS.flatMap(typeScriptIn)) {
    const { outputText } = transpileModule(readFileSync(join(ROOT, file), 'utf8'), {
      compilerOptions,
    });
    writeFileSync(join(folder, compiledName(file)), outputText);
  }
}

/** What Node runs or imports in place of this program: the compiled one, or itself by tsx if it was not compiled. */
export function runnable(program: URL): { readonly url: URL; readonly imports: readonly string[] } {
  const folder = process.env[VARIABLE];
  const file = relative(ROOT, fileURLToPath(program));
  if (folder === undefined || !FOLDERS.some((each) => file.startsWith(join(each, '/'))))
    return { url: program, imports: ['--import', 'tsx'] };
  return { url: pathToFileURL(join(folder, compiledName(file))), imports: [] };
}

function compiledName(file: string): string {
  return file.replace(/\.ts$/, '.js');
}

function typeScriptIn(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !file.includes('node_modules'))
    .map((file) => join(folder, file));
}
