// Has a process find the source where it imports 'holdfast', as a reader of the docs finds the package: node --import <this file>
import { register } from 'node:module';

const source = new URL('../../src/index.ts', import.meta.url).href;
register(
  `data:text/javascript,${encodeURIComponent(`
    export function resolve(specifier, context, next) {
      return next(specifier === 'holdfast' ? ${JSON.stringify(source)} : specifier, context);
    }`)}`,
);
