// What is searched: bounds for which the model must hold, and mutants of it with the promise that must catch each.

/** Each of these is searched to its end. `isBig`: only with --big; `isShort`: over before a compiler could optimize it. */
export const configurations = [
  { name: 'watched leases', defines: ['NONCES=2'] },
  {
    name: 'a longer lease',
    defines: ['NONCES=2', 'OTHERS_NONCES=1', 'PLACE_LEASE=3'],
    isShort: true,
  },
  { name: 'three clients', defines: ['CLIENTS=3', 'NONCES=1', 'PLACE_LEASE=1'], isShort: true },
  { name: 'one acquires twice', defines: ['NONCES=1', 'SECOND_OWNER=1'] },
  {
    name: 'one lease fixed and extended',
    defines: ['NONCES=2', 'OTHERS_NONCES=1', 'FIXED=1', 'EXTENDED_LEASE=3'],
  },
  {
    name: 'two leases fixed and extended',
    defines: ['NONCES=1', 'FIXED=3', 'EXTENDED_LEASE=3'],
    isShort: true,
  },
  { name: 'faults stop', defines: ['NONCES=2', 'OTHERS_NONCES=1', 'CALM'], isShort: true },
  { name: 'faults stop, a lease fixed', defines: ['NONCES=1', 'FIXED=1', 'CALM'], isShort: true },
  {
    name: 'faults stop after forceUnlock',
    defines: ['NONCES=2', 'OTHERS_NONCES=1', 'FORCE', 'CALM'],
  },
  { name: 'faults stop after FLUSHALL', defines: ['NONCES=2', 'OTHERS_NONCES=1', 'FLUSH', 'CALM'] },
  {
    name: 'three clients, a longer lease',
    defines: ['CLIENTS=3', 'NONCES=1'],
    isBig: true,
  },
  { name: 'three commands', defines: ['NONCES=3', 'OTHERS_NONCES=1'], isBig: true },
  { name: 'faults stop, two commands each', defines: ['NONCES=2', 'CALM'], isBig: true },
  {
    name: 'one lease fixed, two commands each',
    defines: ['NONCES=2', 'FIXED=1', 'EXTENDED_LEASE=3'],
    isBig: true,
  },
  {
    name: 'all leases fixed, longer ones',
    defines: ['NONCES=2', 'OTHERS_NONCES=1', 'FIXED=3', 'EXTENDED_LEASE=3', 'PLACE_LEASE=3'],
    isBig: true,
  },
];

/** `caughtBy`: the promise that it breaks. Without one it is expected to pass, and `why` says why nothing is lost. */
export const mutants = [
  {
    name: 'BARGES',
    what: 'a join takes a free lock past the line',
    defines: ['NONCES=1'],
    caughtBy: 'nobodyIsPassedOver',
  },
  {
    name: 'RENEWAL_TAKES_LAPSED',
    what: 'the renewal of a hold takes a lock that lapsed',
    defines: ['NONCES=1'],
    caughtBy: 'nobodyIsPassedOver',
  },
  {
    name: 'RELEASES_ANY',
    what: "a release frees somebody else's lock",
    defines: ['NONCES=1'],
    caughtBy: 'whoBelievesIsTheOwner',
  },
  {
    name: 'PUBLISHES_FIRST',
    what: 'a grant is published, counted by nobody and taken back, but heard',
    defines: ['NONCES=1'],
    caughtBy: 'whoBelievesIsTheOwner',
  },
  {
    name: 'COUNTS_FROM_RECEIPT',
    what: 'a grant counts from when it was heard',
    defines: ['NONCES=1'],
    caughtBy: 'whoBelievesIsTheOwner',
  },
  {
    name: 'COUNTS_FROM_NEWEST',
    what: 'without nonces: a grant counts from the newest command that was sent',
    defines: ['NONCES=2', 'OTHERS_NONCES=1'],
    caughtBy: 'whoBelievesIsTheOwner',
  },
  {
    name: 'COUNTS_FROM_CONFIRMED',
    what: 'without nonces: a grant counts from the newest command that was confirmed',
    defines: ['NONCES=2', 'OTHERS_NONCES=1'],
    caughtBy: 'whoBelievesIsTheOwner',
  },
  {
    name: 'COUNTS_FROM_REPLY',
    what: 'an acquisition counts from its reply',
    defines: ['NONCES=1'],
    caughtBy: 'whoBelievesIsTheOwner',
  },
  {
    name: 'COUNTS_TOO_MUCH',
    what: 'a client counts one tick more than the server keeps',
    defines: ['NONCES=1', 'COUNTED_LEASE=3'],
    caughtBy: 'whoBelievesIsTheOwner',
  },
  {
    name: 'TAKES_OTHERS',
    what: 'a grant for an earlier owner of this client is taken for the present one',
    defines: ['NONCES=1', 'SECOND_OWNER=1'],
    caughtBy: 'whoBelievesIsTheOwner',
  },
  {
    name: 'CONFIRM_SHORTENS',
    what: 'a confirmation shortens a lease that was prolonged meanwhile',
    defines: ['NONCES=1', 'FIXED=1'],
    caughtBy: 'whoBelievesIsTheOwner',
  },
  {
    name: 'PROLONGS_KEEPING_0',
    what: 'an extension leaves the count at 0, so that a late confirmation shortens it',
    defines: ['NONCES=1', 'FIXED=1'],
    caughtBy: 'whoBelievesIsTheOwner',
  },
  {
    name: 'LINE_WITHOUT_END',
    what: 'the first join gives the line no time to live',
    defines: ['NONCES=1'],
    caughtBy: 'everyKeyEnds',
  },
  {
    name: 'TAKES_OLD_GRANT',
    what: 'a grant older than the newest confirmed command is taken',
    defines: ['NONCES=2', 'OTHERS_NONCES=1', 'FORCE'],
    caughtBy: 'noGrantOutlivesForce',
  },
  {
    name: 'NOBODY_LOOKS',
    what: 'nobody in line looks at a lock that nobody handed over',
    defines: ['NONCES=1', 'CALM'],
    caughtBy: 'everybodyEnters',
  },
  {
    name: 'GONE_IS_IGNORED',
    what: 'a client whose place is gone does not join again',
    defines: ['NONCES=1', 'CALM'],
    caughtBy: 'everybodyEnters',
  },
  {
    name: 'LEAVE_KEEPS_PLACE',
    what: 'who gives up in line keeps the place',
    defines: ['NONCES=1', 'CALM'],
    caughtBy: 'nothingIsLeft',
  },
  {
    name: 'ENTERS_WITH_LITTLE_LEFT',
    what: 'a grant is taken with less than half of the lease left',
    defines: ['NONCES=2', 'OTHERS_NONCES=1', 'PLACE_LEASE=3'],
    why: 'what is left is counted rightly; asking first is for comfort',
  },
  {
    name: 'HANDS_TO_LAPSED',
    what: 'a release hands the lock to a place that lapsed',
    defines: ['NONCES=1', 'CALM'],
    why: 'its client refuses it by its own count; the line waits for one lease more',
  },
  {
    name: 'MAKES_PLACE_ANEW',
    what: 'the renewal of a place that is gone makes it anew',
    defines: ['NONCES=2', 'OTHERS_NONCES=1'],
    why: 'the grant counts from that renewal; what a late copy makes for somebody who left lapses',
  },
];
