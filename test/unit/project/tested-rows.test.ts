// Two pages are tables of what holdfast does. Each of their rows has a test, which is named here.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

/** By the first words of a row: the file of its test, and the title there. */
type Tests = Readonly<Record<string, readonly [file: string, title: string]>>;

const DOWN = 'unit/core/redis-down.test.ts';
const DOCS = 'integration/project/docs-recipes.test.ts';
const CLI = 'integration/cli/usage.test.ts';
const RUN = 'integration/cli/run.test.ts';
const RUN_OUTAGE = 'integration/cli/run-outage.test.ts';
const WEB = 'integration/project/web-recipes.test.ts';
const JOBS = 'integration/project/job-recipes.test.ts';

const WHEN_REDIS_IS_DOWN: Tests = {
  '`lock.acquire()`': [
    DOWN,
    '%s waits for Redis, and throws UnavailableError when its wait is over',
  ],
  '`tryAcquire()`': [DOWN, '%s throws UnavailableError at the next failed attempt to connect'],
  'any single attempt': [
    DOWN,
    'a Redis that accepts commands and answers none is unavailable after',
  ],
  'any call, if Redis rejects': [
    'integration/servers/reachability.test.ts',
    'is "refused" as long as the password is wrong, and no longer',
  ],
  'callers that wait already': [DOWN, 'callers that wait already wait on, and get the lock when'],
  '`hold.release()`': [DOWN, 'release(), unlock() and extend() throw UnavailableError after'],
  '`holdfast.ping()`': [DOWN, 'ping() throws, and status is connecting'],
  '`new Holdfast()`': [
    DOWN,
    'a client may be made while Redis is down: it connects when that is up',
  ],
  '`holdfast.close()`': [DOWN, 'close() takes commandTimeout and half a second at most, and never'],
  'NestJS: `@Lock`': [
    'unit/adapters/nestjs.test.ts',
    'throws UnavailableError while Redis is down, and onBusy does not hide that: %s',
  ],
  'NestJS: the health': [
    'integration/nestjs/health.test.ts',
    'says whether Redis answers, for each client',
  ],
  '[Cron]': [
    'unit/adapters/cron.test.ts',
    'is not run while Redis is down, which its scheduler is told',
  ],
  'node-cron:': [
    'integration/cron/schedulers.test.ts',
    'runs no distributed task while Redis is down, and tells why',
  ],
  events: [DOWN, 'there is one error event when an outage begins, and one recovered event when'],
  'a hold that the watchdog': [
    DOWN,
    'a watched hold outlives an outage that ends before its lease',
  ],
  'a hold with a `lease`': [
    DOWN,
    'a hold with a lease of its own goes on to the end of that lease',
  ],
  '`withLock()`, if the outage': [
    DOWN,
    'withLock() returns what its function returns if an outage',
  ],
  '`withLock()`, if the lock': [
    DOWN,
    'withLock() throws LockLostError if its lock was lost before',
  ],
  'a [kept lock]': [DOWN, 'a kept lock that nobody holds is taken again only when Redis is back'],
  'a semaphore': [
    DOWN,
    'permits of a semaphore and reads of a read-write lock are waited for like',
  ],
  'the line of a fair lock': [
    DOWN,
    'a fair lock serves its line in the old order when Redis is back',
  ],
  'a Redlock, a minority': [
    DOWN,
    'a Redlock works while a minority is down, and throws QuorumError',
  ],
  'a Redlock, a majority': [
    'integration/red/dead-nodes.test.ts',
    'a holder learns of it before the remaining masters would let another client in',
  ],
  'a MultiLock': [DOWN, 'a MultiLock waits for the Redis of each member, and holds none of them'],
  '`npx holdfast run`, at its': [
    RUN_OUTAGE,
    'while Redis %s, run waits for as long as --wait says',
  ],
  '`npx holdfast run`, while': [
    RUN_OUTAGE,
    'ends its command in time when Redis stays away, and exits 76',
  ],
  '`npx holdfast ls`': [CLI, 'there is no Redis'],
  '[Fastify]': ['integration/fastify/fastify.test.ts', 'answers 503 and when to try again, while'],
  '[Express]': [WEB, 'says when to try again, while the lock is held and while Redis is down'],
  '[Hono]': [WEB, 'answers 503 while Redis is down'],
  '[Next.js]': [WEB, 'answers 503 while Redis is down'],
  '[Leader election]': [DOCS, 'has no leader when the lease is over, and one when Redis is back'],
  '[BullMQ]': [JOBS, 'puts jobs back until Redis is up, and counts no failed attempt'],
  '[graphile-worker]': [JOBS, 'puts a job back until Redis is up, with the attempts that it has'],
};

const WHAT_DO_YOU_WANT_TO_DO: Tests = {
  'run a schedule': [
    'integration/cron/processes.test.ts',
    'each tick that the scheduler names is run once, beside no other',
  ],
  'see waits': ['unit/telemetry/opentelemetry.test.ts', 'count calls by kind, outcome and via'],
  'use node-redis': ['integration/servers/port-contract.test.ts', 'node-redis 5'],
  'run one job': [JOBS, 'runs up to two jobs of a customer at a time'],
  'know who holds': [
    'integration/client/inspect.test.ts',
    'shows holder, line and tokens as the server has them',
  ],
  'be told when': [
    'integration/reentrant/loss.test.ts',
    'when the server is away for longer than the lease',
  ],
  'keep late writers': [
    'integration/fenced/example.test.ts',
    'a holder that is stopped past its lease continues, writes, and is refused',
  ],
  'keep a lock': [
    'unit/testing/advance.test.ts',
    'keeps a watched lock by running every renewal in between',
  ],
  'run a command': [RUN, 'holds the lock while the command runs, and exits as it does'],
  'move from': [
    'integration/servers/moving-over.test.ts',
    'a caller that takes both excludes callers of the old lock and of the new one',
  ],
  'test without Redis': [
    'unit/testing/page/report.test.ts',
    'waits for the lock, and sends the report once more if the lock is lost',
  ],
  'know whether': [DOWN, '%s throws UnavailableError at the next failed attempt to connect'],
  'lock several keys': [
    'integration/multi/all-or-nothing.test.ts',
    'tryLock() returns false, and no other member is held when it returns',
  ],
  'take a lock in one process': [
    DOCS,
    'keeps the order taken from the request until the worker has done it',
  ],
  'log or count': ['unit/core/telemetry.test.ts', 'tells that a call ended %s'],
};

describe.each<[page: string, tests: Tests]>([
  ['docs/how-to/redis-is-down.md', WHEN_REDIS_IS_DOWN],
  ['docs/how-to/index.md', WHAT_DO_YOU_WANT_TO_DO],
])('%s', (page, tests) => {
  const rows = readFileSync(page, 'utf8')
    .split('\n')
    .filter((line, i, lines) => /^\| [^-]/.test(line) && !lines[i + 1]?.startsWith('| --'));
  const beginnings = Object.keys(tests);

  it.each(rows)('%s', (row) => {
    const beginning = beginnings.find((each) => row.startsWith(`| ${each}`)) ?? '';
    expect(beginning).not.toBe('');
    const [file, title] = tests[beginning]!;
    const text = readFileSync(`test/${file}`, 'utf8');
    const begins = ["'", '"', '`'].some((quote) => text.includes(quote + title));
    expect(begins && !/\b(it|describe)\.(skip|todo)\(/.test(text)).toBe(true);
  });

  it('has no test of a row that is not there', () => {
    const isThere = (beginning: string): boolean =>
      rows.some((row) => row.startsWith(`| ${beginning}`));
    expect(beginnings.filter((each) => !isThere(each))).toEqual([]);
  });
});
