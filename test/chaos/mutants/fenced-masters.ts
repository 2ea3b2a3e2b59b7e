// The mutants of Redlocks that give tokens.
import type { Mutant } from './mutant.js';

export const FENCED_MASTER_MUTANTS: readonly Mutant[] = [
  {
    name: 'token written back by maximum',
    what: 'a master that knows a larger token says that it has this one, too',
    kinds: ['red'],
    isFenced: true,
    edits: [
      {
        in: 'lua',
        from: 'if lastNumber >= number then\n  return last\nend',
        to: 'if lastNumber >= number then\n  return 1\nend',
      },
    ],
  },
  {
    name: 'token on a guarded master',
    what: 'a master within its restart guard counts as one that knows the token',
    kinds: ['red'],
    isFenced: true,
    edits: [
      {
        in: 'src',
        from: 'const counting = this.#nodes.filter((_, index) => !whyNot[index]);',
        to: "const counting = this.#nodes.filter(\n        (_, index) => whyNot[index]?.answer !== 'unreachable',\n      );",
      },
    ],
  },
  {
    name: 'token not written back',
    what: 'the largest token that a voter asks for is the holder’s, and no master is told',
    kinds: ['red'],
    isFenced: true,
    edits: [
      {
        in: 'src',
        from: 'const result = token === undefined ? votes :',
        to: 'const result = token === undefined || Number(0) === 0 ? votes :',
      },
    ],
  },
];
