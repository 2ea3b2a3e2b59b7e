// Whether a campaign noticed a mutant of the library.
import { expect, it } from 'vitest';
import { noticed } from '../../chaos/mutants/try-mutants.js';
import { TypeErrors } from '../../chaos/mutants/spoiled-copy.js';

function violation(rule: string): { rule: string; at: number; message: string; sections: [] } {
  return { rule, at: 0, message: '', sections: [] };
}

it('a mutant that only crashes is not noticed; the first rule that it breaks besides counts', () => {
  const crashes = ['trouble in a process', 'an odd error'].map(violation);
  expect(noticed([])).toBeUndefined();
  expect(noticed(crashes)).toBeUndefined();
  const broken = violation('two holders');
  expect(noticed([...crashes, broken, violation('wrong count')])).toBe(broken);
});

it(
  'a mutant file that TypeScript rejects is reported; Lua is not checked',
  { timeout: 60_000 },
  () => {
    const typeErrors = new TypeErrors();
    const file = 'src/core/spoiled.ts';
    const spoiled = (argument: string): Map<string, string> =>
      new Map([
        [
          file,
          `import { now, PROCESS_CLOCK } from '../runtime/clock.js';\nimport { leftMs } from './protocol.js';\nexport const left = leftMs(${argument});\n`,
        ],
        ['lua/spoiled.lua', 'is no TypeScript'],
      ]);
    expect(typeErrors.in(spoiled("'kept'"))).toHaveLength(1);
    expect(typeErrors.in(spoiled('{ since: now(PROCESS_CLOCK), usableMs: 1 }'))).toEqual([]);
    expect(typeErrors.in(new Map([['lua/spoiled.lua', 'is no TypeScript']]))).toEqual([]);
  },
);
