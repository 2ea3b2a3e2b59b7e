// holdfast and a Redisson that knows only classic channels, as all versions before 3.22, in a cluster that has sharded ones.
import { besideRedisson } from '../support/redisson-contract.js';

besideRedisson('in a cluster, on classic channels', {
  isCluster: true,
  isAboutWaiting: true,
  ours: { classicUnlockChannels: true },
  theirs: { hasClassicChannels: true },
});
