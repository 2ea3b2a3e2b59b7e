// Whether a spoiled library is one that TypeScript takes: a mutant that only crashes breaks no rule, and shows nothing.
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

/** Looks at one spoiled library after the other; what is the same in all of them is read once. */
export class TypeErrors {
  readonly #options: ts.CompilerOptions;
  readonly #host: ts.CompilerHost;
  readonly #read = new Map<string, ts.SourceFile | undefined>();
  #last: ts.Program | undefined;

  constructor() {
    const path = join(ROOT, 'tsconfig.json');
    const { config } = ts.readConfigFile(path, (file) => ts.sys.readFile(file)) as {
      config: object;
    };
    const { options } = ts.parseJsonConfigFileContent({ ...config, files: [] }, ts.sys, ROOT);
    delete options.tsBuildInfoFile;
    this.#options = { ...options, incremental: false };
    this.#host = ts.createCompilerHost(this.#options);
  }

  /** In the files that were changed: what they are called in the library, and what stands there now. */
  in(changed: ReadonlyMap<string, string>): string[] {
    const texts = new Map([...changed].map(([file, text]) => [join(ROOT, file), text]));
    const names = [...texts.keys()].filter((file) => file.endsWith('.ts'));
    if (names.length === 0) return [];
    const host: ts.CompilerHost = {
      ...this.#host,
      getSourceFile: (file, language) => {
        const text = texts.get(file);
        if (text !== undefined) return ts.createSourceFile(file, text, language);
        if (!this.#read.has(file)) this.#read.set(file, this.#host.getSourceFile(file, language));
        return this.#read.get(file);
      },
    };
    const program = ts.createProgram(names, this.#options, host, this.#last);
    this.#last = program;
    return names.flatMap((name) => {
      const file = program.getSourceFile(name);
      return [
        ...program.getSyntacticDiagnostics(file),
        ...program.getSemanticDiagnostics(file),
      ].map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, ' '));
    });
  }
}
