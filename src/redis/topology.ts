// What happens to a cluster under us: a node is lost, slots move. A client follows by itself, when somebody next asks; but
// what was on a lost node may be lost with it.

import type { ClusterNodes } from './driver.js';
import { SLOT_COUNT, slotOf } from './slots.js';

/** Whether something happened to the slot of a key with this hash tag. */
export type IsDisturbed = (hashTag: string) => boolean;

/** Calls back when the node of some slots was lost, or when some slots are found on another one. */
export function watchTopology(
  nodes: ClusterNodes,
  disturbed: (isDisturbed: IsDisturbed) => void,
): void {
  let masters = mastersOf(nodes);
  nodes.watch({
    nodeLost: (lost) => {
      disturbed((hashTag) => masters[slotOf(hashTag)] === lost);
    },
    refreshed: () => {
      const former = masters;
      masters = mastersOf(nodes);
      const current = masters;
      if (current.every((master, slot) => master === former[slot])) return;
      disturbed((hashTag) => current[slotOf(hashTag)] !== former[slotOf(hashTag)]);
    },
  });
}

/** The master of each slot, as it is known now. */
function mastersOf(nodes: ClusterNodes): (string | undefined)[] {
  return Array.from({ length: SLOT_COUNT }, (_, slot) => nodes.masterOf(slot));
}
