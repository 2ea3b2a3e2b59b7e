// Writes a declaration file for CommonJS beside the one of each export: TypeScript reads a `.d.cts` file as CommonJS, so that it lets CommonJS
// code require what is an ES module (as Node.js does). It only passes on the types of the ES module: there is one build, with one set of classes.
import { readFileSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';

const { exports } = JSON.parse(readFileSync('package.json', 'utf8'));
for (const { types, require } of Object.values(exports)) {
  if (require === undefined) continue;
  const from = `'./${basename(types, '.d.ts')}.js'`;
  const hasDefault = readFileSync(types, 'utf8').includes('export default ');
  // Before TypeScript 5.8, and with "node16", the compiler refuses a require() of an ES module, which Node.js 20.19 can do.
  const lines = [
    `export * from ${from};`,
    ...(hasDefault ? [`export { default } from ${from};`] : []),
  ];
  writeFileSync(require.types, lines.map((line) => `// @ts-ignore\n${line}\n`).join(''));
}
