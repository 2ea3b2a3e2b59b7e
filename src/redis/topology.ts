// Notices what happens to a cluster under us: a node is lost, slots move. Commands find their new node by themselves; but locks on a node
// that was lost may be lost with it, so their holders have to ask.

import type { ClusterNodes } from './driver.js';
import { SLOT_COUNT, slotOf } from './slots.js';

/** Whether the slot of the keys with this hash tag has lost its node, or has moved. */
export type IsDisturbed = (hashTag: string) => boolean;

/** Calls back when the node of some slots was lost, or when some slots are found on another node. */
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
