// A process of the campaign: its clients and callers take locks, and write down what they do and believe.
//
// Environment: HOLDFAST_CHAOS_ORDER (JSON, a WorkOrder), HOLDFAST_CHAOS_LIBRARY (what to import; left out: src/)
// block {ms}    ->  blocked, after the event loop stood still that long
// suspend {ms}  ->  blocked, and the monotonic clock stood still as well
// wall {ms}         the wall clock is so much ahead
// stop          ->  stopped, when no caller does anything any more
// describe          the clients say how they are, in the journal
// count         ->  counted, after it was written down how many permits there are
// close         ->  closed; then the process ends by itself
import { Socket } from 'node:net';
import { machineMs } from '../../support/time.js';
import { onMessage, stopListening, tell } from '../../support/child-messages.js';
import { Beliefs } from './section.js';
import { actionsOf } from './actions.js';
import { callersOf } from './caller.js';
import { block, MACHINE_TIME, patchClocks, stepWallClock, suspend } from './time.js';
import { Documents, Witnesses } from './documents.js';
import { FileJournal } from './journal.js';
import { Party, sourcesOf } from './party.js';
import { PostFolder } from './post.js';
import { STAYED, type WorkOrder } from './work-order.js';

patchClocks();
const order = JSON.parse(process.env['HOLDFAST_CHAOS_ORDER']!) as WorkOrder;
const journal = new FileJournal(order.journal);
process.on('unhandledRejection', (reason) => {
  journal.note({ what: 'trouble', message: `unhandled rejection: ${describe(reason)}` });
});
process.on('uncaughtException', (error) => {
  journal.note({ what: 'trouble', message: `uncaught exception: ${describe(error)}` });
});
process.on('warning', (warning) => {
  if (warning.name === 'MaxListenersExceededWarning')
    journal.note({ what: 'trouble', message: `a leak: ${warning.message}` });
});

const documents = order.documents === undefined ? undefined : new Documents(order.documents);
const witnesses = order.witnesses && new Witnesses(order.witnesses);
const beliefs = new Beliefs(journal, MACHINE_TIME);
const post = new PostFolder(order.post, order.name);
const context = { journal, beliefs, watchdogMs: order.watchdogMs, documents, witnesses, post };
const parties = order.clients.map(
  (address, index) =>
    new Party({
      order,
      name: `${order.name}c${index}`,
      journal,
      time: MACHINE_TIME,
      sources: () => sourcesOf(address),
    }),
);
const callers = callersOf(parties, order, order.name, context, MACHINE_TIME);
const working = Promise.all(callers.map((caller) => caller.work(actionsOf(caller.party))));
const LAG_LOOK_MS = 50;
const WHAT_IS_LEFT_MS = 600;
let lagTimer = setTimeout(noteLag, LAG_LOOK_MS, machineMs());

onMessage(async ({ type, ms }) => {
  switch (type) {
    case 'block':
      block(Number(ms));
      tell('blocked');
      return;
    case 'suspend':
      suspend(Number(ms));
      tell('blocked');
      return;
    case 'wall':
      stepWallClock(Number(ms));
      return;
    case 'describe':
      for (const party of parties) party.describe();
      return;
    case 'stop':
      for (const caller of callers) caller.stop();
      await working;
      tell('stopped');
      return;
    case 'count':
      await Promise.all(parties.map((party) => party.countPermits()));
      tell('counted');
      return;
    case 'close':
      clearTimeout(lagTimer);
      await Promise.all(parties.map((party) => party.close()));
      await documents?.close();
      await witnesses?.close();
      tell('closed', { atMs: machineMs() });
      stopListening();
      setTimeout(tellWhatIsLeft, WHAT_IS_LEFT_MS, machineMs(), false).unref();
  }
});
tell('ready');

/** What keeps the process from ending, though all its clients are closed. */
function tellWhatIsLeft(since: number, isSecondLook: boolean): void {
  const tookMs = machineMs() - since;
  // It was suspended, perhaps before it had got to its end.
  if (tookMs > WHAT_IS_LEFT_MS + 2 * LAG_LOOK_MS && !isSecondLook) {
    setTimeout(tellWhatIsLeft, WHAT_IS_LEFT_MS, since, true).unref();
    return;
  }
  const handles = (process as unknown as { _getActiveHandles(): object[] })._getActiveHandles();
  const sockets = handles.filter((handle) => handle instanceof Socket);
  const ends = sockets.map(
    ({ localPort, remotePort, connecting, destroyed }) =>
      `${localPort}-${remotePort}${connecting ? ' connecting' : ''}${destroyed ? ' destroyed' : ''}`,
  );
  const resources = process.getActiveResourcesInfo().join(' ');
  const message = `still there ${Math.round(tookMs)} ms after close(): ${resources}; sockets ${ends.join(', ')}`;
  journal.note({ what: 'warned', message });
  process.exitCode = STAYED;
}

/** For how long the event loop stood still, by us or by the machine. */
function noteLag(since: number): void {
  const lagMs = machineMs() - since - LAG_LOOK_MS;
  if (lagMs > LAG_LOOK_MS) journal.note({ what: 'lagged', ms: lagMs });
  lagTimer = setTimeout(noteLag, LAG_LOOK_MS, machineMs());
}

function describe(reason: unknown): string {
  return reason instanceof Error ? (reason.stack ?? reason.message) : String(reason);
}
