// Has a process find NestJS 11, which is installed here, wherever it imports NestJS: node --import <this file>
import { register } from 'node:module';

register(
  `data:text/javascript,${encodeURIComponent(`
    const parentURL = ${JSON.stringify(import.meta.url)};
    export function resolve(specifier, context, next) {
      const isOfNest = /^(@nestjs\\/|reflect-metadata$|rxjs$)/.test(specifier);
      return next(specifier, isOfNest ? { ...context, parentURL } : context);
    }`)}`,
);
