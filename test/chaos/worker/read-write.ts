// What only a read-write lock can do: who writes goes on as a reader; who reads may not begin to write.
import type { Hold } from '../../../src/index.js';
import type { Action, Caller } from './caller.js';
import type { PartyLock } from './party.js';
import { optionsOf, type Section } from './section.js';

export const READ_WRITE_ACTIONS: readonly Action[] = [
  { weight: 3, act: downgrade },
  { weight: 1, act: downgradeInRun },
  { weight: 0.5, act: upgrade },
];

/** The write lock goes while the read lock inside it stays. */
async function downgrade(caller: Caller): Promise<void> {
  const { party, random, sections } = caller;
  const writes = party.someWriteLock(random);
  const request = caller.someRequest();
  const section = sections.call('acquire to write', party.clientId, writes, request);
  try {
    const write = await writes.lock.acquire(optionsOf(request));
    section.enter(write);
    await caller.stepsIn(section);
    let isLetGo = false;
    const letGo = async (): Promise<void> => {
      isLetGo = true;
      section.leave();
      await write.release();
      section.end();
    };
    const reading = write.run(() => readOn(caller, writes.reads, section, letGo));
    await reading.catch((error: unknown) => {
      if (isLetGo) throw error;
      return letGo(); // it was lost before: its release says so
    });
  } catch (error) {
    section.end(error);
  }
}

/** Reads within `outer`, and beyond it: `letGo` ends that. */
async function readOn(
  caller: Caller,
  reads: PartyLock,
  outer: Section,
  letGo: () => Promise<void>,
): Promise<void> {
  const { party, sections } = caller;
  const section = sections.call('acquire to read', party.clientId, reads, {}, outer.id);
  const read = await reads.lock.acquire().catch((error: unknown) => {
    section.end(error);
  });
  if (read) section.enter(read);
  try {
    await letGo();
  } finally {
    if (read) await leaveRead(caller, section, read);
  }
}

async function leaveRead(caller: Caller, section: Section, read: Hold): Promise<void> {
  try {
    await caller.stepsIn(section);
    if (caller.random.chance(0.2)) await caller.extend(read, section);
    section.leave();
    await read.release();
    section.end();
  } catch (error) {
    section.end(error);
  }
}

/** The same in Redisson's way. */
async function downgradeInRun(caller: Caller): Promise<void> {
  const { party, random, sections } = caller;
  const writes = party.someWriteLock(random);
  const { reads } = writes;
  await party.client
    .run(async () => {
      const outer = sections.call('lock to write', party.clientId, writes, {});
      try {
        await writes.lock.lock();
        outer.enter();
        const inner = sections.call('lock to read', party.clientId, reads, {}, outer.id);
        try {
          await reads.lock.lock();
          inner.enter();
          outer.leave();
          await writes.lock.unlock();
          outer.end();
          await caller.steps(() => undefined);
          inner.leave();
          await reads.lock.unlock();
          inner.end();
        } catch (error) {
          inner.end(error);
          throw error;
        }
      } catch (error) {
        outer.end(error);
      }
    })
    .catch(() => undefined); // what it left held was lost
}

/** Refused at once, whoever else reads. */
async function upgrade(caller: Caller): Promise<void> {
  const { party, random, sections } = caller;
  const writes = party.someWriteLock(random);
  const { reads } = writes;
  const request = caller.someRequest();
  const section = sections.call('withLock', party.clientId, reads, request);
  try {
    await reads.lock.withLock(optionsOf(request), async (hold) => {
      section.enter(hold);
      const inner = sections.call('upgrade', party.clientId, writes, {}, section.id);
      await writes.lock
        .withLock((write) => {
          inner.enter(write);
          inner.leave();
        })
        .then(
          () => {
            inner.end();
          },
          (error: unknown) => {
            inner.end(error);
          },
        );
      section.leave();
    });
    section.end();
  } catch (error) {
    section.end(error);
  }
}
