// The mutants: each breaks one rule on which a promise rests.
import type { Mutant } from './mutant.js';

export const MUTANTS: readonly Mutant[] = [
  {
    name: 'release of any owner',
    what: 'a release frees the lock whoever holds it',
    kinds: ['reentrant'],
    edits: [
      {
        in: 'lua',
        from: "if redis.call('HDEL', lock, owner) == 0 then\n  return 0\nend",
        to: "if redis.call('DEL', lock) == 0 then\n  return 0\nend",
      },
    ],
  },
  {
    name: 'deadline from the reply',
    what: 'a lease counts from when its reply came, not from when it was asked for',
    kinds: ['reentrant'],
    edits: [
      {
        in: 'src',
        from: 'return { since: sentAt, usableMs: leaseMs - driftMarginMs(leaseMs) };',
        to: 'void sentAt;\n  return { since: { monotonicMs: performance.now(), wallMs: Date.now() }, usableMs: leaseMs - driftMarginMs(leaseMs) };',
      },
    ],
  },
  {
    name: 'renewal of whatever stands there',
    what: "a renewal prolongs the lock and says 'kept' whoever holds it",
    kinds: ['reentrant'],
    edits: [
      {
        in: 'lua',
        from: "  if redis.pcall('HEXISTS', lock, owner) == 1 then\n    local ttlMs",
        to: "  if redis.call('EXISTS', lock) == 1 then\n    local ttlMs",
      },
    ],
  },
  {
    name: 'lost wake-up',
    what: 'a release tells nobody',
    kinds: ['reentrant'],
    edits: [
      {
        in: 'lua',
        from: "local told = publish ~= '' and redis.pcall(publish, channel, '0')\nreturn type(told)",
        to: 'local told = 0\nreturn type(told)',
      },
    ],
  },
  {
    name: 'grant without its nonce',
    what: 'a grant counts whatever it answers, from when it is heard',
    kinds: ['fair'],
    edits: [
      {
        in: 'src',
        from: 'const sentAt = this.#sendings.sentAt(nonce);\n    if (!sentAt || this.#grant) return;',
        to: 'const sentAt = now();\n    if (this.#grant) return;',
      },
    ],
  },
  {
    name: 'Redlock without its guard',
    what: 'a master that has just restarted votes',
    kinds: ['red'],
    edits: [
      {
        in: 'src',
        from: 'const votesInMs = guardMs - lock.connection.serverAgeMs;',
        to: 'const votesInMs = 0 * (guardMs - lock.connection.serverAgeMs);',
      },
    ],
  },
  {
    name: 'Redlock without undo',
    what: 'the votes of a lost election stay',
    kinds: ['red'],
    edits: [
      {
        in: 'src',
        from: "if (outcome.outcome !== 'acquired') takeBack(mayHaveBeenSeen(outcome, asked.length, quorum));",
        to: 'void mayHaveBeenSeen;',
      },
    ],
  },
];
