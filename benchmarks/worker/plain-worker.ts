// The program of a worker as plain JavaScript. With tsx a process spends most of a second of a core on starting, and a run starts dozens.

import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

/** What a worker is made of. */
const FOLDERS = ['peers', 'support', 'worker'];

/** As deep as benchmarks/, from where dist/ is found. */
const SOURCES = new URL('../', import.meta.url);
const PLAIN = new URL('../../dist-bench/', import.meta.url);

const compilerOptions = { target: ts.ScriptTarget.ES2023, module: ts.ModuleKind.ESNext };

/** Writes it to dist-bench/, and returns the path of what to start. */
export function plainWorker(): string {
  for (const folder of FOLDERS) {
    mkdirSync(new URL(folder, PLAIN), { recursive: true });
    const files = readdirSync(new URL(folder, SOURCES)).filter((file) =>
      /(?<!\.d)\.ts$/.test(file),
    );
    for (const file of files) {
      const source = readFileSync(new URL(`${folder}/${file}`, SOURCES), 'utf8');
      const { outputText } = ts.transpileModule(source, { compilerOptions });
      writeFileSync(new URL(`${folder}/${file.replace('.ts', '.js')}`, PLAIN), outputText);
    }
  }
  return fileURLToPath(new URL('worker/worker.js', PLAIN));
}
