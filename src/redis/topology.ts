// What happens to a cluster under us: a node is lost, slots move. ioredis follows by itself, when somebody next asks; but
// what was on a lost node may be lost with it.

import type { Cluster, Redis } from 'ioredis';
import { SLOT_COUNT, slotOf } from './slots.js';

/** Whether something happened to the slot of a key with this hash tag. */
export type IsDisturbed = (hashTag: string) => boolean;

/** Calls back when the node of some slots was lost, or when some slots are found on another one. */
export function watchTopology(
  cluster: Cluster,
  disturbed: (isDisturbed: IsDisturbed) => void,
): void {
  let masters = mastersOf(cluster);
  cluster.on('-node', ({ options: { host, port } }: Redis) => {
    const lost = `${String(host)}:${String(port)}`;
    disturbed((hashTag) => masters[slotOf(hashTag)] === lost);
  });
  cluster.on('refresh', () => {
    const former = masters;
    masters = mastersOf(cluster);
    const current = masters;
    if (current.every((master, slot) => master === former[slot])) return;
    disturbed((hashTag) => current[slotOf(hashTag)] !== former[slotOf(hashTag)]);
  });
}

/** Copied, since ioredis changes its own table in place. */
function mastersOf({ slots }: Cluster): (string | undefined)[] {
  return Array.from({ length: SLOT_COUNT }, (_, slot) => slots[slot]?.[0]);
}
