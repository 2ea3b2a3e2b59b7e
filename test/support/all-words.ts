// Everything that a value says, however it is looked at: messages, stacks, causes, inspection to the bottom, JSON.
import { inspect } from 'node:util';

/** All texts of the value and of what it carries, whether or not it would be printed. */
export function allWords(value: unknown): string {
  const words: string[] = [inspect(value, { depth: Infinity, showHidden: true, getters: true })];
  const seen = new Set<unknown>();
  const collect = (part: unknown): void => {
    if (typeof part === 'string') words.push(part);
    if (typeof part !== 'object' || part === null || seen.has(part)) return;
    seen.add(part);
    words.push(json(part));
    if (part instanceof Error) words.push(String(part));
    for (const key of Reflect.ownKeys(part)) collect((part as Record<PropertyKey, unknown>)[key]);
  };
  collect(value);
  return words.join('\n');
}

function json(value: object): string {
  const above = new Set<unknown>();
  return JSON.stringify(value, (_key, part: unknown) => {
    if (typeof part === 'bigint') return String(part);
    if (typeof part !== 'object' || part === null) return part;
    if (above.has(part)) return '(again)';
    above.add(part);
    return part;
  });
}
