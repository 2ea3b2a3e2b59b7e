// Has a process find the source where it imports 'holdfast', as a reader of the docs finds the package: node --import <this file>
import { existsSync } from 'node:fs';
import { register } from 'node:module';

const typeScript = new URL('../../src/index.ts', import.meta.url);
const source = existsSync(typeScript) ? typeScript.href : typeScript.href.replace(/ts$/, 'js'); // compiled.ts leaves only the .js
register(
  `data:text/javascript,${encodeURIComponent(`
    export function resolve(specifier, context, next) {
      return next(specifier === 'holdfast' ? ${JSON.stringify(source)} : specifier, context);
    }`)}`,
);
