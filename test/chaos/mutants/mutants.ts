// The mutants: each spoils the library where a promise rests on it, and a campaign must notice.
import type { Kind } from '../plan.js';

export interface Mutant {
  readonly name: string;
  /** What is wrong with it, in a few words. */
  readonly what: string;
  /** The rounds in which it shows. */
  readonly kinds: readonly Kind[];
  /** Whether it shows only where Redlocks give tokens. */
  readonly isFenced?: boolean;
  readonly edits: readonly Edit[];
}

/** Text that stands once in all of lua/ or src/, and what stands there instead. */
export interface Edit {
  readonly in: 'lua' | 'src';
  readonly from: string;
  readonly to: string;
}

export const MUTANTS: readonly Mutant[] = [
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
        to: 'void sentAt;\n  return { since: now(sentAt.clock), usableMs: leaseMs - driftMarginMs(leaseMs) };',
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
        from: "local count = ours('HGET', lock, owner)",
        to: "local count = redis.call('EXISTS', lock) == 1 and '1'",
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
        from: "local told = publish ~= '' and redis.pcall(publish, channel, '0') or 0\nreturn type(told)",
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
        from: 'const sentAt = this.#sentAt(nonce);\n    if (!sentAt || !this.#mayStand',
        to: 'const sentAt = now(this.#confirmedAt.clock);\n    if (!this.#mayStand',
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
        from: 'const why = votesInMs > 0 ? guarded(node, votesInMs, false) : undefined;',
        to: 'const why = 0 * votesInMs > 0 ? guarded(node, votesInMs, false) : undefined;',
      },
      {
        in: 'src',
        from: "if (vote?.answer !== 'acquired' || node.upMs >= required.upMs) return vote ?? [];",
        to: "if (vote?.answer !== 'acquired' || node.upMs >= 0 * required.upMs) return vote ?? [];",
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
        from: "if (result.outcome !== 'acquired') this.#takeBack(this.#mayHaveBeenSeen(result));",
        to: 'this.#mayHaveBeenSeen(result);',
      },
    ],
  },
  {
    name: 'wall clock ignored',
    what: 'a deadline looks at the monotonic clock only, which stands still while the machine is suspended',
    kinds: ['reentrant'],
    edits: [
      {
        in: 'src',
        from: 'return Math.max(monotonicMs - since.monotonicMs, wallMs - since.wallMs);',
        to: 'void wallMs;\n  return monotonicMs - since.monotonicMs;',
      },
    ],
  },
  {
    name: 'counts as differences',
    what: 'a nested acquisition adds to the count, instead of setting it, so a repeat counts twice',
    kinds: ['reentrant'],
    edits: [
      {
        in: 'lua',
        from: "if count ~= holdCount then\n  local counted = redis.pcall('HSET', lock, owner, holdCount)",
        to: "if holdCount ~= '0' then\n  local counted = redis.pcall('HINCRBY', lock, owner, holdCount)",
      },
      {
        in: 'src',
        from: 'const send = (): Promise<KeepReply> =>\n      lock.reenter(ownerId, holdCount, leaseMs, waitLimit, this.#isShared);',
        to: 'const more = holdCount - (this.countThere ?? holdCount);\n    const send = (): Promise<KeepReply> =>\n      lock.reenter(ownerId, more, leaseMs, waitLimit, this.#isShared);',
      },
    ],
  },
  {
    name: 'repeat taken for a first try',
    what: 'a release whose reply was lost finds nothing when it is repeated, and calls that a loss',
    kinds: ['reentrant'],
    edits: [{ in: 'src', from: 'if (!isReleased && !isRepeat)', to: 'if (!isReleased)' }],
  },
  {
    name: 'first try taken for a repeat',
    what: 'a release that finds nothing calls that a success, though the lock was lost',
    kinds: ['reentrant'],
    edits: [
      {
        in: 'src',
        from: 'if (!isReleased && !isRepeat)',
        to: 'if (!isReleased && isRepeat === undefined)',
      },
    ],
  },
  {
    name: 'unanswered renewal counts',
    what: 'a renewal that was not answered prolongs the lease all the same',
    kinds: ['reentrant'],
    edits: [
      {
        in: 'src',
        from: '    } catch (error) {\n      const alone = this.#splitting.due(batch, error);',
        to: "    } catch (error) {\n      const deadline = deadlineOf(sentAt, leaseMs);\n      for (const { lease } of batch)\n        lease.renewed('kept', { sentAt, leaseMs, deadline, answeredAt: now(sentAt.clock) });\n      const alone = this.#splitting.due(batch, error);",
      },
    ],
  },
  {
    name: 're-entry takes a lapsed lock',
    what: 'a nested acquisition takes a lock whose key is gone',
    kinds: ['reentrant'],
    edits: [
      {
        in: 'lua',
        from: 'local owner, holdCount, leaseMs = ARGV[1], ARGV[2], tonumber(ARGV[3])\n',
        to: "local owner, holdCount, leaseMs = ARGV[1], ARGV[2], tonumber(ARGV[3])\nif redis.call('EXISTS', lock) == 0 then\n  redis.call('HSET', lock, owner, 1)\n  redis.call('PEXPIRE', lock, math.max(leaseMs, 1000))\nend\n",
      },
    ],
  },
  {
    name: 'inner lease cuts the outer',
    what: 'a nested acquisition with a shorter lease shortens that of the lock',
    kinds: ['reentrant'],
    edits: [
      {
        in: 'lua',
        from: 'local newTtlMs = math.max(ttlMs, leaseMs)',
        to: 'local newTtlMs = leaseMs > 0 and leaseMs or ttlMs',
      },
    ],
  },
  {
    name: 'siblings at once',
    what: 'branches of one holder do not take turns, as if all of them only read',
    kinds: ['reentrant'],
    edits: [
      { in: 'src', from: 'if (!turns.tryTake(isShared)) {', to: 'if (!turns.tryTake(true)) {' },
    ],
  },
  {
    name: 'what was given up stays',
    what: 'an acquisition that was given up while it was on its way is not undone',
    kinds: ['reentrant'],
    edits: [
      {
        in: 'src',
        from: '    this.#owners.set(id, leftover);\n    this.#try(id, leftover);',
        to: '    void [id, leftover];',
      },
    ],
  },
  {
    name: 'who gives up keeps its place',
    what: 'who gives up is not taken out of the line, nor is what it may have been given',
    kinds: ['fair'],
    edits: [
      {
        in: 'src',
        from: 'if (mayStand || isLeft) this.#session.cleanup.remove(this.#lock, waiter.ownerId, isLeft);',
        to: 'void [mayStand, isLeft];',
      },
    ],
  },
  {
    name: 'close() releases nothing',
    what: 'what is held when its client is closed stays on the server for the rest of its lease',
    kinds: ['reentrant'],
    edits: [
      {
        in: 'src',
        from: '=>\n      (await lock.release(ownerId)) || isRepeat;',
        to: '=> Promise.resolve(isRepeat || true);',
      },
    ],
  },
  {
    name: 'held is told as unavailable',
    what: 'who waits for too long is told that Redis did not answer, though it said that somebody else has the lock',
    kinds: ['reentrant', 'fair'],
    edits: [
      {
        in: 'src',
        from: 'const seen = this.#isReentering ? undefined : (known ?? this.#heldHere);',
        to: 'const young = known ?? this.#heldHere;\n    const seen = young && Number(0) > 0 ? young : undefined;',
      },
    ],
  },
  {
    name: 'subscribed is not told',
    what: 'what was published before a subscription stood, or stood again, is missed',
    kinds: ['reentrant'],
    edits: [
      {
        in: 'src',
        from: '    for (const listener of this.listeners) listener.subscribed();',
        to: '',
      },
    ],
  },
  {
    name: 'newcomers pass the line',
    what: 'a fair lock that is free goes to whoever asks, whoever waits',
    kinds: ['fair'],
    edits: [{ in: 'lua', from: 'if isFree and isFirst then', to: 'if isFree then' }],
  },
  {
    name: 'line that forgets leases',
    what: 'a fair lock is handed over for ten minutes instead of what is left of the place',
    kinds: ['fair'],
    edits: [
      {
        in: 'lua',
        from: "refusal('PEXPIREAT', lock, expiresAtMs)",
        to: "refusal('PEXPIRE', lock, 600000)",
      },
    ],
  },
  {
    name: 'majority of half',
    what: 'a Redlock is held with one vote less than most',
    kinds: ['red'],
    edits: [
      {
        in: 'src',
        from: 'this.quorum = Math.floor(masters.length / 2) + 1;',
        to: 'this.quorum = Math.floor(masters.length / 2);',
      },
    ],
  },
  {
    name: 'votes counted from their reply',
    what: "a Redlock's lease counts from the end of the election",
    kinds: ['red'],
    edits: [
      {
        in: 'src',
        from: "return { outcome: 'acquired', token: result.token, sentAt };",
        to: "return { outcome: 'acquired', token: result.token, sentAt: now(sentAt.clock) };",
      },
    ],
  },
  {
    name: 'token without the last one',
    what: 'a token is the time, which may be set back',
    kinds: ['fenced'],
    edits: [
      {
        in: 'lua',
        from: 'local number = math.max(lastNumber + 1, nowUs)',
        to: 'local number = nowUs',
      },
    ],
  },
  {
    name: 'token without the time',
    what: 'a token is the last one plus one, and 1 when that is forgotten',
    kinds: ['fenced'],
    edits: [
      {
        in: 'lua',
        from: 'local number = math.max(lastNumber + 1, nowUs)',
        to: 'local number = lastNumber + 1\n  nowUs = math.min(nowUs, number)',
      },
    ],
  },
  {
    name: 'hand-over with the same token',
    what: 'who is handed a fair lock is given the token of who hands it over',
    kinds: ['fenced'],
    edits: [
      {
        in: 'lua',
        from: '  if isKnown and token and not setToken',
        to: "  token = redis.call('GET', counter) or token\n  if isKnown and token and not setToken",
      },
    ],
  },
  {
    name: 'MultiLock keeps its parts',
    what: 'members that were acquired stay held when another one was not',
    kinds: ['multi'],
    edits: [
      {
        in: 'src',
        from: '    if (holds.length > 0) await this.#undo(holds);',
        to: '    void this.#undo;',
      },
    ],
  },
  {
    name: 'permits of any owner',
    what: 'a release takes the permits of whoever would lapse first',
    kinds: ['semaphore', 'read-write'],
    edits: [
      {
        in: 'lua',
        from: '  goes(owner, weightOf(field))\n',
        to: "  goes(holders[1], weightOf(redis.call('HGET', lock, holders[1])))\n",
      },
    ],
  },
  {
    name: 'lapsed holders count',
    what: 'who has lapsed keeps its permits',
    kinds: ['semaphore', 'read-write'],
    edits: [
      {
        in: 'lua',
        from: 'if holders[2] and tonumber(holders[2]) <= nowMs then',
        to: 'if holders[2] and tonumber(holders[2]) <= 0 then',
      },
      {
        in: 'lua',
        from: 'local hasLapsed = holder[1] ~= nil and tonumber(holder[2]) <= nowMs',
        to: 'local hasLapsed = false',
      },
    ],
  },
  {
    name: 'small requests overtake',
    what: 'whoever wants few enough permits is let in past the first in line, who wants more',
    kinds: ['semaphore'],
    edits: [
      {
        in: 'lua',
        from: '      if hasToWait(candidate, place) then\n        waiting = place\n        break\n      end\n      leaving[#leaving + 1] = candidate',
        to: '      if hasToWait(candidate, place) then\n        waiting = waiting or place\n      else\n        leaving[#leaving + 1] = candidate\n      end',
      },
    ],
  },
  {
    name: 'newcomers take free permits',
    what: 'permits that nobody holds go to whoever asks, whoever waits',
    kinds: ['semaphore', 'read-write'],
    edits: [
      {
        in: 'lua',
        from: 'if isFirst and not hasLapsed and used + weight <= capacity then',
        to: 'if not hasLapsed and used + weight <= capacity then',
      },
    ],
  },
  {
    name: 'writer beside readers',
    what: 'who wants to write is let in while others read',
    kinds: ['read-write'],
    edits: [
      {
        in: 'lua',
        from: 'if isFirst and not hasLapsed and used + weight <= capacity then',
        to: 'if isFirst and not hasLapsed and (used + weight <= capacity or weight > 1 and used < capacity) then',
      },
    ],
  },
  {
    name: 'downgrade that is not told',
    what: 'who goes on reading keeps others from it',
    kinds: ['read-write'],
    edits: [
      {
        in: 'src',
        from: 'const weight = isShared && leaseMs === 0 ?',
        to: 'const weight = isShared && leaseMs < 0 ?',
      },
    ],
  },
  {
    name: 'extension that shortens',
    what: 'a lease of permits ends when it was last said to, and not later',
    kinds: ['semaphore'],
    edits: [
      {
        in: 'lua',
        from: 'local mayShorten = isUnconfirmed and isConfirmation',
        to: 'local mayShorten = isUnconfirmed or not isConfirmation',
      },
    ],
  },
  {
    name: 'remains count',
    what: 'when the leases of a lock were deleted, its permits stay in use',
    kinds: ['semaphore', 'read-write'],
    edits: [
      {
        in: 'lua',
        from: 'local isTorn = isNew and holder[1] or used > 0 and not holder[1]',
        to: 'local isTorn = false',
      },
      {
        in: 'lua',
        from: 'local isTorn = used > 0 and not hadHolders',
        to: 'local isTorn = false',
      },
    ],
  },
];
