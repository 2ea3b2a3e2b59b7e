// Holds each Lua script's header to its body: every key and argument is described, unpacked by its name, and used.
import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

describe.each(readScripts())('lua/$file', ({ header, body }) => {
  const described = describedInputs(header);

  it('says what it does first', () => {
    expect(header[0]).toMatch(/^-- [A-Z].+/);
  });

  it('describes keys and arguments in order, one line for each', () => {
    for (const kind of ['KEYS', 'ARGV']) {
      const ofKind = described.filter((input) => input.kind === kind);
      expect(ofKind.map(({ index }) => index)).toEqual(ofKind.map((_, i) => i + 1));
      expect(ofKind.slice(0, -1).every(({ isTail }) => !isTail)).toBe(true);
    }
    const mentioned = header.filter((line) => /^-- (KEYS|ARGV)\[/.test(line));
    expect(described).toHaveLength(mentioned.length);
    expect(described.length).toBeGreaterThan(0);
  });

  it('gives durations a unit', () => {
    for (const { name, type } of described) {
      if (name.endsWith('Ms')) expect(type).toMatch(/\bms\b/);
    }
  });

  it('says what it returns', () => {
    expect(header.some((line) => line.startsWith('-- Returns '))).toBe(true);
  });

  it.each(described)(
    'unpacks $kind[$index] into "$name" and uses it',
    ({ kind, index, name, isTail }) => {
      const source = isTail
        ? String.raw`[^\n]*\b${kind}\b`
        : String.raw`(tonumber\()?${kind}\[${index}\]`;
      expect(body).toMatch(new RegExp(String.raw`\blocal ${name} = ${source}`));
      expect(body.match(new RegExp(String.raw`\b${name}\b`, 'g'))?.length).toBeGreaterThan(1);
    },
  );

  it('uses no key or argument that the header leaves out', () => {
    for (const [use, kind, index] of body.matchAll(/\b(KEYS|ARGV)\[([^\]]+)\]/g)) {
      const isDescribed = described.some(
        (input) =>
          input.kind === kind &&
          (input.isTail ? !(Number(index) < input.index) : input.index === Number(index)),
      );
      expect(isDescribed, use).toBe(true);
    }
  });
});

it.each(['nextToken', 'setToken'])('%s() is the same in every script that has it', (name) => {
  const functions = readScripts().flatMap(({ source }) => {
    const from = source.indexOf(`local function ${name}(`);
    return from < 0 ? [] : [source.slice(from, source.indexOf('\nend\n', from))];
  });
  expect(functions).toHaveLength(5);
  expect(new Set(functions).size).toBe(1);
});

interface DescribedInput {
  kind: string;
  index: number;
  /** Stands for this and all further ones. */
  isTail: boolean;
  name: string;
  type: string;
}

function describedInputs(header: string[]): DescribedInput[] {
  const form = /^-- (KEYS|ARGV)\[(\d+)(\.\.)?\] (\w+) \(([^)]+)\): \S/;
  return header.flatMap((line) => {
    const [, kind, index, tail, name, type] = form.exec(line) ?? [];
    return kind
      ? [{ kind, index: Number(index), isTail: tail !== undefined, name: name!, type: type! }]
      : [];
  });
}

function readScripts(): { file: string; header: string[]; body: string; source: string }[] {
  const files = readdirSync('lua').filter((file) => file.endsWith('.lua'));
  return files.map((file) => {
    const lines = readFileSync(`lua/${file}`, 'utf8').split('\n');
    const headerLength = lines.findIndex((line) => !line.startsWith('--'));
    return {
      file,
      header: lines.slice(0, headerLength),
      body: lines.slice(headerLength).join('\n').replace(/--.*$/gm, ''),
      source: lines.join('\n'),
    };
  });
}
