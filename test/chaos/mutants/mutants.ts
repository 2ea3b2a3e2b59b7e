// The mutants: each breaks the library where a promise depends on it, and a campaign must notice.
import type { Kind } from '../plan.js';

export interface Mutant {
  readonly name: string;
  /** The defect, in a few words. */
  readonly what: string;
  /** The rounds in which it shows. */
  readonly kinds: readonly Kind[];
  /** Whether it shows only where Redlocks give tokens. */
  readonly isFenced?: boolean;
  readonly edits: readonly Edit[];
}

/** Text that occurs once in all of lua/ or src/, and its replacement. */
export interface Edit {
  readonly in: 'lua' | 'src';
  readonly from: string;
  readonly to: string;
}

/** The rounds in which holders are told at once that their locks are gone. */
const TOLD: readonly Kind[] = ['reentrant', 'fair', 'fenced', 'multi', 'semaphore', 'read-write'];

export const MUTANTS: readonly Mutant[] = [
  {
    ...mutant(
      'token written back by maximum',
      'a master that knows a larger token says that it has this one, too',
      ['red'],
      lua(
        'if lastNumber >= number then\n  return last\nend',
        'if lastNumber >= number then\n  return 1\nend',
      ),
    ),
    isFenced: true,
  },
  {
    ...mutant(
      'token on a guarded master',
      'a master within its restart guard counts as one that knows the token',
      ['red'],
      src(
        'answers.filter((_, index) => !whyNot[index]);',
        "answers.filter((_, index) => whyNot[index]?.answer !== 'unreachable');",
      ),
    ),
    isFenced: true,
  },
  {
    ...mutant(
      'token not written back',
      'the largest token that a voter asks for is the holder’s, and no master is told',
      ['red'],
      src(
        'return isFenced ? await this.#writeBack(votes.token, votes.unreached) : votes;',
        'return isFenced && Number(0) > 0 ? await this.#writeBack(votes.token, votes.unreached) : votes;',
      ),
    ),
    isFenced: true,
  },
  mutant(
    'turns between clients',
    'a caller that comes while its client releases the lock does not let other clients pass',
    ['reentrant', 'fenced'],
    src(
      'if (this.#listeners > 0) this.#owesUntilMs = Infinity;',
      'if (this.#listeners > 0 && Number(0) > 1) this.#owesUntilMs = Infinity;',
    ),
  ),
  mutant(
    'release of any owner',
    'a release frees the lock whoever holds it',
    ['reentrant'],
    lua(
      "if redis.call('HDEL', lock, owner) == 0 then\n  return 0\nend",
      "if redis.call('DEL', lock) == 0 then\n  return 0\nend",
    ),
  ),
  mutant(
    'deadline from the reply',
    'a lease counts from when its reply came, not from when it was asked for',
    ['reentrant'],
    src(
      'return { since: sentAt, usableMs: usableMsOf(leaseMs) };',
      'void sentAt;\n  return { since: now(sentAt.clock), usableMs: usableMsOf(leaseMs) };',
    ),
  ),
  mutant(
    'renewal of whatever stands there',
    "a renewal prolongs the lock and says 'kept' whoever holds it",
    ['reentrant'],
    lua(
      "local count = ours('HGET', lock, owner)",
      "local count = redis.call('EXISTS', lock) == 1 and '1'",
    ),
  ),
  mutant(
    'lost wake-up',
    'a release tells nobody',
    ['reentrant'],
    lua(
      "local told = publish ~= '' and redis.pcall(publish, channel, '0') or 0\nreturn type(told)",
      'local told = 0\nreturn type(told)',
    ),
  ),
  mutant(
    'grant without its nonce',
    'a grant counts whatever it answers, from when it is heard',
    ['fair'],
    src(
      'const sentAt = this.#sentAt(nonce);\n    if (!sentAt || !this.#mayStand',
      'const sentAt = now(this.#confirmedAt.clock);\n    if (!this.#mayStand',
    ),
  ),
  mutant(
    'Redlock without its guard',
    'a master that has just restarted votes',
    ['red'],
    src(
      "return guarded(this.#terms.masters[index]?.name ?? '', requiredMs - upMs, waitsForOthers);",
      "return guarded(this.#terms.masters[index]?.name ?? '', 0 * (requiredMs - upMs), waitsForOthers);",
    ),
  ),
  mutant(
    'Redlock without undo',
    'the votes of a lost election stay',
    ['red'],
    src("if (result?.outcome !== 'acquired') election.takeBack();", 'void result;'),
  ),
  mutant(
    'wall clock ignored',
    'a deadline looks at the monotonic clock only, which stands still while the machine is suspended',
    ['reentrant'],
    src(
      'return Math.max(monotonicMs - since.monotonicMs, wallMs - since.wallMs);',
      'void wallMs;\n  return monotonicMs - since.monotonicMs;',
    ),
  ),
  mutant(
    'counts as differences',
    'a nested acquisition adds to the count, instead of setting it, so a repeat counts twice',
    ['reentrant'],
    lua(
      "if count ~= holdCount then\n  local counted = redis.pcall('HSET', lock, owner, holdCount)",
      "if holdCount ~= '0' then\n  local counted = redis.pcall('HINCRBY', lock, owner, holdCount)",
    ),
    src('const holdCount = Math.max(this.holdCount + more, 1);', 'const holdCount = more;'),
    src(
      'await this.#setCount(this.holdCount, 0, waitLimit);',
      'await this.#setCount(-1, 0, waitLimit);',
    ),
  ),
  mutant(
    'repeat taken for a first try',
    'a release whose reply was lost finds nothing when it is repeated, and calls that a loss',
    ['reentrant'],
    src('if (!isReleased && !mayBeDone)', 'if (!isReleased)'),
  ),
  mutant(
    'first try taken for a repeat',
    'a release that finds nothing calls that a success, though the lock was lost',
    ['reentrant'],
    src('if (!isReleased && !mayBeDone)', 'if (!isReleased && mayBeDone === undefined)'),
  ),
  mutant(
    'hand-over of what is gone',
    'a release that names a successor gives it the lock, though its own owner has lost that',
    ['reentrant'],
    lua('local isRepeat = not has(owner)', 'local isRepeat = has(successor)'),
  ),
  mutant(
    'successor with a lease of its own',
    'until the hand-over is answered, the successor relies on its own lease alone',
    ['reentrant'],
    src('successor(earlier(lease, this.#deadline))', 'successor(lease)'),
  ),
  mutant(
    'hand-over counted from its answer',
    'the lease of a successor counts from the answer to the hand-over, not from when that was first sent',
    ['reentrant'],
    src(
      'if (entered) entered.#handedOver(outcome, lease);',
      'if (entered) entered.#handedOver(outcome, deadlineOf(now(clock), next.leaseMs));',
    ),
  ),
  mutant(
    'gone hand-over told as done',
    'a release that names a successor is called a success, though the lock was lost before',
    ['reentrant'],
    src(
      "if (outcome !== 'done' && !isRepeat) throw this.#loseTo(outcome);",
      "if (outcome !== 'done' && isRepeat === undefined) throw this.#loseTo(outcome);",
    ),
  ),
  mutant(
    'older owner stays',
    'a successor that is given up is removed, and the hand-over that arrives late puts it there again',
    ['reentrant'],
    src('await removable.release(ownerId); // first', 'void ownerId; // first'),
  ),
  mutant(
    'unanswered renewal counts',
    'a renewal that was not answered prolongs the lease all the same',
    ['reentrant'],
    src(
      '    } catch (error) {\n      const alone = this.#splitting.due(batch, error);',
      "    } catch (error) {\n      const deadline = deadlineOf(sentAt, leaseMs);\n      for (const { lease } of batch)\n        lease.renewed('kept', { sentAt, leaseMs, deadline, answeredAt: now(sentAt.clock) });\n      const alone = this.#splitting.due(batch, error);",
    ),
  ),
  mutant(
    're-entry takes a lapsed lock',
    'a nested acquisition takes a lock whose key is gone',
    ['reentrant'],
    lua(
      'local owner, holdCount, leaseMs = ARGV[1], ARGV[2], tonumber(ARGV[3])\n',
      "local owner, holdCount, leaseMs = ARGV[1], ARGV[2], tonumber(ARGV[3])\nif redis.call('EXISTS', lock) == 0 then\n  redis.call('HSET', lock, owner, 1)\n  redis.call('PEXPIRE', lock, math.max(leaseMs, 1000))\nend\n",
    ),
  ),
  mutant(
    'inner lease cuts the outer',
    'a nested acquisition with a shorter lease shortens that of the lock',
    ['reentrant'],
    lua(
      'local newTtlMs = math.max(ttlMs, leaseMs)',
      'local newTtlMs = leaseMs > 0 and leaseMs or ttlMs',
    ),
  ),
  mutant(
    'siblings at once',
    'branches of one holder do not take turns, as if all of them only read',
    ['reentrant'],
    src('if (!turns.tryTake(isShared)) {', 'if (!turns.tryTake(true)) {'),
  ),
  mutant(
    'what was given up stays',
    'an acquisition that was given up while it was on its way is not undone',
    ['reentrant'],
    src(
      '    this.#owners.set(id, leftover);\n    this.#try(id, leftover);',
      '    void [id, leftover];',
    ),
  ),
  mutant(
    'who gives up keeps its place',
    'who gives up is not taken out of the line, nor is what it may have been given',
    ['fair'],
    src(
      'if (mayStand || isLeft) this.#session.cleanup.remove(this.#removable, waiter.ownerId, isLeft);',
      'void [mayStand, isLeft];',
    ),
  ),
  mutant(
    'close() releases nothing',
    'what is held when its client is closed stays on the server for the rest of its lease',
    ['reentrant'],
    src(
      'retry(this.connection, waitLimit, { name }, () => grant.giveBack());',
      'retry(this.connection, waitLimit, { name }, () => Promise.resolve(true));',
    ),
  ),
  mutant(
    'held is told as unavailable',
    'who waits for too long is told that Redis did not answer, though it said that somebody else has the lock',
    ['reentrant', 'fair'],
    src(
      'const seen = this.#isReentering ? undefined : (known ?? this.#localGrant);',
      'const young = known ?? this.#localGrant;\n    const seen = young && Number(0) > 0 ? young : undefined;',
    ),
  ),
  mutant(
    'subscribed is not told',
    'what was published before a subscription stood, or stood again, is missed',
    ['reentrant'],
    src('    for (const listener of this.listeners) listener.subscribed();', ''),
  ),
  mutant(
    'newcomers pass the line',
    'a fair lock that is free goes to whoever asks, whoever waits',
    ['fair'],
    lua('if isFree and isFirst then', 'if isFree then'),
  ),
  mutant(
    'line that forgets leases',
    'a fair lock is handed over for ten minutes instead of what is left of the place',
    ['fair'],
    lua("refusal('PEXPIREAT', lock, expiresAtMs)", "refusal('PEXPIRE', lock, 600000)"),
  ),
  mutant(
    'majority of half',
    'a Redlock is held with one vote less than most',
    ['red'],
    src(
      'this.quorum = Math.floor(masters.length / 2) + 1;',
      'this.quorum = Math.floor(masters.length / 2);',
    ),
  ),
  mutant(
    'votes counted from their reply',
    "a Redlock's lease counts from the end of the election",
    ['red'],
    src(
      "return { outcome: 'acquired', token: result.token, sentAt };",
      "return { outcome: 'acquired', token: result.token, sentAt: now(sentAt.clock) };",
    ),
  ),
  mutant(
    'token without the last one',
    'a token is the time, which may be set back',
    ['fenced'],
    lua('local number = math.max(lastNumber + 1, nowUs)', 'local number = nowUs'),
  ),
  mutant(
    'token without the time',
    'a token is the last one plus one, and 1 when that is forgotten',
    ['fenced'],
    lua(
      'local number = math.max(lastNumber + 1, nowUs)',
      'local number = lastNumber + 1\n  nowUs = math.min(nowUs, number)',
    ),
  ),
  mutant(
    'hand-over with the same token',
    'who is handed a fair lock is given the token of who hands it over',
    ['fenced'],
    lua(
      '  if isKnown and token and not setToken',
      "  token = redis.call('GET', counter) or token\n  if isKnown and token and not setToken",
    ),
  ),
  mutant(
    'MultiLock keeps its parts',
    'members that were acquired stay held when another one was not',
    ['multi'],
    src('    if (holds.length > 0) await this.#undo(holds);', '    void this.#undo;'),
  ),
  mutant(
    'permits of any owner',
    'a release takes the permits of whoever would lapse first',
    ['semaphore', 'read-write'],
    lua(
      '  goes(owner, weightOf(field))\n',
      "  goes(holders[1], weightOf(redis.call('HGET', lock, holders[1])))\n",
    ),
  ),
  mutant(
    'lapsed holders count',
    'who has lapsed keeps its permits',
    ['semaphore', 'read-write'],
    lua(
      'if holders[2] and tonumber(holders[2]) <= nowMs then',
      'if holders[2] and tonumber(holders[2]) <= 0 then',
    ),
    lua(
      'local hasLapsed = holder[1] ~= nil and tonumber(holder[2]) <= nowMs',
      'local hasLapsed = false',
    ),
  ),
  mutant(
    'small requests overtake',
    'whoever wants few enough permits is let in past the first in line, who wants more',
    ['semaphore'],
    lua(
      '      if hasToWait(candidate, place) then\n        waiting = place\n        break\n      end\n      leaving[#leaving + 1] = candidate',
      '      if hasToWait(candidate, place) then\n        waiting = waiting or place\n      else\n        leaving[#leaving + 1] = candidate\n      end',
    ),
  ),
  mutant(
    'newcomers take free permits',
    'permits that nobody holds go to whoever asks, whoever waits',
    ['semaphore', 'read-write'],
    lua(
      'if isFirst and not hasLapsed and used + weight <= capacity then',
      'if not hasLapsed and used + weight <= capacity then',
    ),
  ),
  mutant(
    'writer beside readers',
    'who wants to write is let in while others read',
    ['read-write'],
    lua(
      'if isFirst and not hasLapsed and used + weight <= capacity then',
      'if isFirst and not hasLapsed and (used + weight <= capacity or weight > 1 and used < capacity) then',
    ),
  ),
  mutant(
    'downgrade that is not told',
    'who goes on reading keeps others from it',
    ['read-write'],
    src('const weight = isShared && leaseMs === 0 ?', 'const weight = isShared && leaseMs < 0 ?'),
  ),
  mutant(
    'extension that shortens',
    'a lease of permits ends when it was last said to, and not later',
    ['semaphore'],
    lua(
      "local mayShorten = isUnconfirmed and shortens == '1'",
      "local mayShorten = isUnconfirmed or shortens ~= '1'",
    ),
  ),
  mutant(
    'remains count',
    'when the leases of a lock were deleted, its permits stay in use',
    ['semaphore', 'read-write'],
    lua('local isTorn = isNew and holder[1] or used > 0 and not holder[1]', 'local isTorn = false'),
    lua('local isTorn = used > 0 and not hadHolders', 'local isTorn = false'),
  ),
  mutant(
    'confirmed as released',
    'a hand-over that its receiver confirms is marked as one that was released',
    ['fair'],
    lua("isRelease and '-2' or '01'", "'-2'"),
  ),
  mutant(
    'free in spite of lockAtLeastFor',
    'a release frees a lock that was to stay taken',
    ['reentrant'],
    src(
      'return restMs > 0 ? lock.releaseIn(ownerId, restMs) : lock.release(ownerId);',
      'return lock.release(ownerId);',
    ),
  ),
  mutant(
    'exported and still held',
    'who exports a hold goes on to believe in it',
    ['exported'],
    src('      this.#become(EXPORTED);\n      exported();\n', ''),
  ),
  mutant(
    'adopted twice',
    'an adoption leaves the owner in its place that was exported, and the next one finds that, too',
    ['exported'],
    lua(
      "redis.call('HDEL', lock, refused and successor or owner)",
      "redis.call('HDEL', lock, refused and successor or '')",
    ),
  ),
  mutant(
    'kept without a look at the clock',
    'a client hands out what it has kept, whatever is left of the lease and however old its proof is',
    ['kept'],
    src(
      'return isProven && leftMs(this.#deadline, at) >= keeping.leaseMs / 3 && !this.#turns.isTaken;',
      'void isProven;\n    return !this.#turns.isTaken;',
    ),
  ),
  mutant(
    'kept on an old proof',
    'a hold begins on a kept lock that the server last confirmed longer ago than it may be kept',
    ['kept'],
    src(
      'return isProven && leftMs(this.#deadline, at) >= keeping.leaseMs / 3',
      'void isProven;\n    return leftMs(this.#deadline, at) >= keeping.leaseMs / 3',
    ),
  ),
  mutant(
    'kept without a proof',
    'what is kept is not proved, and counts as if it had been',
    ['kept'],
    src(
      'const replies = await this.#renewer.renew(batch, leaseMs);',
      "const replies = await Promise.resolve(batch.map(() => 'kept' as const));",
    ),
  ),
  mutant(
    'deaf keeper',
    'a client goes on to keep a lock that another one wishes for',
    ['kept'],
    src('    if (kept) this.#wish(kept);\n', '    if (kept) void kept;\n'),
  ),
  mutant(
    'lent in spite of a wish',
    'a wish for a lock that is in use is forgotten: its next caller gets it, too',
    ['kept'],
    src('    kept.grant.letGo();\n  }', '    if (kept.grant.isIdle) kept.grant.letGo();\n  }'),
  ),
  mutant(
    'kept over a connection',
    'what was kept before its connection was lost is kept when that is back',
    ['kept'],
    src(
      'server.connection.listen({ ready: this.#letAllGo, disturbed: this.#letAllGo });',
      'void server.connection;',
    ),
    src(
      '  subscribed(): void {\n    this.#letAllGo();\n  }',
      '  subscribed(): void {\n    return;\n  }',
    ),
  ),
  mutant(
    'repeat of a mark taken for none',
    'who repeats an acquisition and finds that it has marked the lock takes that for a lock like any other',
    ['kept'],
    lua("isKept = count == '-1'", 'isKept = false'),
  ),
  mutant(
    'marked though others listen',
    'a lock is kept though others wait for its release, who make no more wishes',
    ['kept'],
    lua('isKept = listening ~= nil and listening <= tonumber(own)', 'isKept = listening ~= nil'),
  ),
  mutant(
    'kept after its client was closed',
    'a client that closes leaves the locks on the server that it kept',
    ['kept'],
    src(
      '        grant.letGo(); // to the clean-up, which is awaited below\n        return Promise.resolve();',
      '        return Promise.resolve();',
    ),
  ),
  mutant(
    'no look after a message',
    'who is told that its key has changed does not look at it',
    TOLD,
    src(
      "    if (sight.state === 'told') this.#isDue(sight);",
      "    if (sight.state === 'told') void sight;",
    ),
  ),
  mutant(
    'message during a look',
    'a change that is told while the key is being read is forgotten',
    TOLD,
    src(
      "    if (sight.state === 'looking') sight.state = 'changed';",
      "    if (sight.state === 'looking') void sight;",
    ),
  ),
  mutant(
    'no look over a new pair',
    'when keys can be read again, what is due is not read',
    TOLD,
    src("if (sight.state === 'due') this.#due.add(sight);", 'void sight;'),
  ),
  mutant(
    'told by a pair that has ended',
    'what was read over connections that have ended counts as told over the next ones',
    TOLD,
    src("    if (former?.kind === 'telling') this.#heard.changed(undefined);\n", ''),
  ),
  mutant(
    'own writes leave it told',
    'a message that its own renewal has caused is ignored, though it was the last one until the next reading',
    TOLD,
    src(
      "    if (sight.state === 'told') this.#isDue(sight);",
      "    const { lease } = sight.guarded as unknown as { lease: { ageMs(): number } };\n    if (sight.state === 'told' && lease.ageMs() > 50) this.#isDue(sight);",
    ),
  ),
  mutant(
    'look that counts as a renewal',
    'whoever has looked at a lock renews it that much later',
    TOLD,
    src(
      "import type { Tracking } from '../redis/tracking.js';\nimport type { Due, Schedule, Scheduled }",
      "import { now } from '../runtime/clock.js';\nimport { deadlineOf, type Watched } from './protocol.js';\nimport type { Tracking } from '../redis/tracking.js';\nimport type { Due, Schedule, Scheduled }",
    ),
    src(
      "    if (isThere === false || isThere === 'elsewhere') this.suspect(guarded as G);\n",
      "    if (isThere === false || isThere === 'elsewhere') this.suspect(guarded as G);\n    const at = now(this.#schedule.clock);\n    const { lease } = guarded as unknown as Watched<unknown>;\n    const renewal = { sentAt: at, leaseMs: 0, deadline: deadlineOf(at, 30_000), answeredAt: at };\n    if (isThere === true) lease.renewed('kept', renewal);\n",
    ),
  ),
  mutant(
    'forged word',
    'who is said to be forced out has lost the lock, whoever says so',
    TOLD,
    src(
      "import type { Tracking } from '../redis/tracking.js';\nimport type { Due, Schedule, Scheduled }",
      "import { now } from '../runtime/clock.js';\nimport { deadlineOf, type Watched } from './protocol.js';\nimport type { Tracking } from '../redis/tracking.js';\nimport type { Due, Schedule, Scheduled }",
    ),
    src(
      'if (this.#forced.has(numberOf(guarded))) this.#suspects.add(guarded);',
      "if (this.#forced.has(numberOf(guarded))) {\n          const at = now(this.#schedule.clock);\n          const { lease } = guarded as unknown as Watched<unknown>;\n          const renewal = { sentAt: at, leaseMs: 0, deadline: deadlineOf(at, 0), answeredAt: at };\n          lease.renewed('forced', renewal);\n        }",
    ),
  ),
  mutant(
    'told before the answer',
    'a key counts as told as soon as it was asked for, also if it cannot be read',
    TOLD,
    src(
      "        sight.state = 'looking';\n        sight.readUntilMs",
      "        sight.state = 'told';\n        sight.readUntilMs",
    ),
    src(
      "    if (typeof isThere !== 'boolean' || state === 'changed') this.#isDue(sight);\n    else sight.state = 'told';\n",
      '',
    ),
  ),
];

function mutant(
  name: string,
  what: string,
  kinds: readonly Kind[],
  ...edits: readonly Edit[]
): Mutant {
  return { name, what, kinds, edits };
}

function lua(from: string, to: string): Edit {
  return { in: 'lua', from, to };
}

function src(from: string, to: string): Edit {
  return { in: 'src', from, to };
}
