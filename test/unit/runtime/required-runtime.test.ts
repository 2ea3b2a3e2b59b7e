// The error of a Node.js that is older than holdfast needs.
import { afterEach, expect, it, vi } from 'vitest';

const wellFormed = Object.getOwnPropertyDescriptor(String.prototype, 'isWellFormed')!;

afterEach(() => {
  Object.defineProperty(String.prototype, 'isWellFormed', wellFormed);
  vi.unstubAllGlobals();
});

it('the import reports which Node.js is needed, and the present version', async () => {
  vi.resetModules();
  vi.stubGlobal('process', { ...process, versions: { ...process.versions, node: '18.20.8' } });
  Reflect.deleteProperty(String.prototype, 'isWellFormed');
  await expect(import('../../../src/index.js')).rejects.toThrow(
    'holdfast needs Node.js 20.19 or newer; this is 18.20.8',
  );
}, 20_000);

it('a runtime that claims an older Node.js, as Bun and Deno may, is judged by its features', async () => {
  vi.resetModules();
  vi.stubGlobal('process', { ...process, versions: { ...process.versions, node: '18.20.8' } });
  await expect(import('../../../src/runtime/node.js')).resolves.toBeDefined();
});
