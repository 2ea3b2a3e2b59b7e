// The sources as JavaScript, for the processes that tests start: one that compiles them itself, by tsx, takes three times as long to begin.
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const FOLDERS = ['src', 'test/support', 'test/recipes'];
/** Tells the processes of a test run where the compiled sources are. */
const VARIABLE = 'HOLDFAST_TEST_COMPILED';

/** Compiles them into a new folder, in which packages are found as in this repository. Returns the folder. */
export async function compileSources(): Promise<string> {
  // Only here: it takes a second, and each test file imports this one.
  const { ModuleKind, ScriptTarget, transpileModule } = await import('typescript');
  // Those of tsconfig.json that matter for what is emitted.
  const compilerOptions = {
    target: ScriptTarget.ES2023,
    module: ModuleKind.ESNext,
    verbatimModuleSyntax: true,
    experimentalDecorators: true,
  };
  const cache = join(ROOT, 'node_modules/.cache');
  mkdirSync(cache, { recursive: true });
  const folder = mkdtempSync(join(cache, 'compiled-'));
  cpSync(join(ROOT, 'package.json'), join(folder, 'package.json'));
  for (const from of FOLDERS)
    cpSync(join(ROOT, from), join(folder, from), {
      recursive: true,
      filter: (file) => !file.endsWith('.ts') && !file.includes('nest-11'),
    });
  for (const file of FOLDERS.flatMap(typeScriptIn)) {
    const source = readFileSync(join(ROOT, file), 'utf8');
    const { outputText } = transpileModule(source, { compilerOptions });
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, compiledName(file)), outputText);
  }
  process.env[VARIABLE] = folder;
  return folder;
}

/** How a process runs this program or import: the compiled one, or by tsx where nothing was compiled. */
export function runnable(program: URL): {
  readonly file: string;
  readonly imports: readonly string[];
} {
  const file = fileURLToPath(program);
  const folder = process.env[VARIABLE];
  if (folder === undefined) return { file, imports: ['--import', 'tsx'] };
  return { file: join(folder, compiledName(relative(ROOT, file))), imports: [] };
}

function compiledName(file: string): string {
  return file.replace(/\.ts$/, '.js');
}

function typeScriptIn(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !file.includes('node_modules'))
    .map((file) => join(folder, file));
}
