// What only a read-write lock can do: who writes goes on as a reader; who reads may not begin to write.
import type { Action, Caller } from './caller.js';
import type { Target } from './party.js';
import type { Section } from './section.js';

export const READ_WRITE_ACTIONS: readonly Action[] = [
  { weight: 3, act: downgrade },
  { weight: 1, act: downgradeInRun },
  { weight: 0.5, act: upgrade },
];

/** The write lock goes while the read lock inside it stays. */
async function downgrade(caller: Caller): Promise<void> {
  const { party, random, sections } = caller;
  const writes = party.someWriteLock(random);
  const request = caller.someRequest(writes);
  const section = sections.call('acquire to write', writes, request);
  await section.during(async () => {
    const write = await writes.acquire(request);
    section.enter(write);
    await caller.stepsIn(section);
    let isLetGo = false;
    const letGo = async (): Promise<void> => {
      isLetGo = true;
      section.leave();
      try {
        await write.release();
        section.end();
      } catch (error) {
        section.end(error); // now: the read hold inside goes on
        throw error;
      }
    };
    const reading = write.run!(() => readOn(caller, writes.reads, section, letGo));
    await reading.catch((error: unknown) => {
      if (isLetGo) throw error;
      return letGo(); // it was lost before: its release says so
    });
  });
}

/** Reads within `outer`, and beyond it: `letGo` ends that. */
async function readOn(
  caller: Caller,
  reads: Target,
  outer: Section,
  letGo: () => Promise<void>,
): Promise<void> {
  const { random, sections } = caller;
  const section = sections.call('acquire to read', reads, {}, outer);
  const read = await reads.acquire({}).catch((error: unknown) => {
    section.end(error);
  });
  if (read) section.enter(read);
  try {
    await letGo();
  } finally {
    if (read)
      await section.during(async () => {
        await caller.stepsIn(section);
        if (random.chance(0.2)) await caller.extend(read, section);
        section.leave();
        await read.release();
      });
  }
}

/** The same in Redisson's way. */
async function downgradeInRun(caller: Caller): Promise<void> {
  const { party, random, sections } = caller;
  const writes = party.someWriteLock(random);
  const { reads } = writes;
  const outer = sections.call('lock to write', writes, {});
  const work = async (): Promise<void> => {
    await writes.lock.lock();
    outer.enter();
    const inner = sections.call('lock to read', reads, {}, outer);
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
  };
  await party.client.run(() => outer.during(work)).catch(() => undefined); // what it left held was lost
}

/** Refused at once, whoever else reads. */
async function upgrade(caller: Caller): Promise<void> {
  const { party, random, sections } = caller;
  const writes = party.someWriteLock(random);
  const request = caller.someRequest(writes);
  const section = sections.call('with', writes.reads, request);
  await section.during(() =>
    writes.reads.with(request, async (held) => {
      section.enter(held);
      const inner = sections.call('upgrade', writes, {}, section);
      await inner.during(() =>
        writes.with({}, (write) => inner.within(write, true, () => Promise.resolve())),
      );
      section.leave();
    }),
  );
}
