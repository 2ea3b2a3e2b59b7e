// Checks each Lua script's header against its body: every key and argument is described, unpacked by its name, and used. Fragments exist
// once, for the scripts that use them.
import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { scripts, type Script } from '../../../src/redis/scripts.generated.js';

describe.each(Object.values<Script>(scripts).map(inParts))('lua/$name', ({ header, body }) => {
  const described = describedInputs(header);
  const unpacked = unpackedNames(body);

  it('says first what it does', () => {
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
      expect(unpacked.get(name)).toBe(isTail ? kind : `${kind}[${index}]`);
      expect(body.match(new RegExp(String.raw`\b${name}\b`, 'g'))?.length).toBeGreaterThan(1);
    },
  );

  it('uses no key or argument that the header omits', () => {
    const uses = [...unpacked.values(), ...Array.from(body.matchAll(USE), ([use]) => use)];
    for (const [use, kind, index] of uses.flatMap((text) => [...text.matchAll(USE)])) {
      const isDescribed = described.some(
        (input) =>
          input.kind === kind &&
          (input.isTail ? !(Number(index) < input.index) : input.index === Number(index)),
      );
      expect(isDescribed, use).toBe(true);
    }
  });
});

describe.each(readFolder('lua/lib'))('lua/lib/$name', ({ name, source }) => {
  const including = [...readFolder('lua'), ...readFolder('lua/lib')].filter((file) =>
    includedBy(file.source).includes(name),
  );

  it('says first what it does', () => {
    expect(source).toMatch(/^-- [A-Z].+/);
  });

  it('serves more than one script, and uses the names of their keys and arguments', () => {
    expect(including.length).toBeGreaterThan(1);
    expect(source).not.toMatch(/\b(KEYS|ARGV)\b/);
  });
});

it.each(Object.values<Script>(scripts).map(inParts))(
  'lua/$name uses each of its functions, and has none twice',
  ({ body }) => {
    const functions = Array.from(body.matchAll(/\blocal function (\w+)/g), ([, called]) => called!);
    expect(new Set(functions).size).toBe(functions.length);
    for (const called of functions)
      expect(
        body.match(new RegExp(String.raw`\b${called}\b`, 'g'))?.length,
        called,
      ).toBeGreaterThan(1);
  },
);

it('no function is in two files', () => {
  const functions = [...readFolder('lua'), ...readFolder('lua/lib')].flatMap(({ source }) =>
    Array.from(inCode(source).matchAll(/^( *)local function .*?\n\1end$/gms), ([text]) =>
      text.trim(),
    ),
  );
  expect(functions.length).toBeGreaterThan(1);
  expect(functions.filter((text, index) => functions.indexOf(text) !== index)).toEqual([]);
});

const USE = /\b(KEYS|ARGV)\[([^\]]+)\]/g;

interface DescribedInput {
  kind: string;
  index: number;
  /** Stands for this index and all further ones. */
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

/** By the name of each variable, the key or argument in it, or all of them. */
function unpackedNames(body: string): Map<string, string> {
  const statements = body.matchAll(/^local ([\w, ]+) = (.*\b(?:KEYS|ARGV)\b.*)$/gm);
  const pairs = Array.from(statements, ([, names = '', values = '']) => {
    const [, all] = /^unpack\((\w+)\)$/.exec(values) ?? [];
    const sources = values
      .split(', ')
      .map((value) => /(KEYS|ARGV)(\[\d+\])?/.exec(value)?.[0] ?? '');
    return names
      .split(', ')
      .map((name, i): [string, string] => [name, all ? `${all}[${i + 1}]` : sources[i]!]);
  });
  return new Map(pairs.flat());
}

function inParts({ name, source }: Script): { name: string; header: string[]; body: string } {
  const lines = source.split('\n');
  const headerLength = lines.findIndex((line) => !line.startsWith('--'));
  const body = inCode(lines.slice(headerLength).join('\n'));
  return { name, header: lines.slice(0, headerLength), body };
}

/** Without comments. */
function inCode(lua: string): string {
  return lua.replace(/ *--.*$/gm, '');
}

function includedBy(source: string): string[] {
  return Array.from(source.matchAll(/^ *-- include: (.+)$/gm), ([, names]) =>
    names!.split(', '),
  ).flat();
}

function readFolder(folder: string): { name: string; source: string }[] {
  return readdirSync(folder)
    .filter((file) => file.endsWith('.lua'))
    .map((file) => ({
      name: file.slice(0, -4),
      source: readFileSync(`${folder}/${file}`, 'utf8'),
    }));
}
