// Lets a Node process use ioredis 5 where the code says ioredis: node --import ./test/support/ioredis5-loader.mjs
import { register } from 'node:module';

const hooks = `export function resolve(specifier, context, next) {
  return next(specifier === 'ioredis' ? 'ioredis5' : specifier, context);
}`;
register(`data:text/javascript,${encodeURIComponent(hooks)}`);
