import { it } from 'vitest';
import { fakeHoldfast } from '../../support/fake-holdfast.js';
import { settle } from '../../support/occupancy.js';
it('x', async () => {
  const { getLock, run, server, client } = fakeHoldfast();
  const lock = getLock('0');
  const log = (s: string) => console.log(s, server.holder('0')?.count);
  await lock.withLock(() => run(() => Promise.all([
    (async () => { await lock.lock(); log('A in'); await new Promise(setImmediate); const u = lock.unlock(); u.then(()=>log('A out'), (e)=>log('A fail '+e)); await u; })(),
    lock.withLock(async () => { log('B in'); await new Promise(setImmediate); log('B go'); const h = await lock.acquire(); log('B acquired'); await settle(); await h.release(); log('B released'); }),
  ])));
});
