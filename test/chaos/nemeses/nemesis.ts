// One way in which things go wrong.
import type { Kind, PlannedFault, Topology } from '../plan.js';
import type { Stage } from '../stage/stage.js';

export interface Nemesis {
  readonly name: string;
  /** How often it is drawn, against the others. */
  readonly weight: number;
  /** Of which locks it is a fault; left out: of all. */
  readonly kinds?: readonly Kind[];
  /** Whether it is a fault only where locks give tokens. */
  readonly isOfTokens?: true;
  /** Where it can happen; left out: everywhere. */
  readonly topologies?: readonly Topology[];
  /** How long it lasts, in leases: from, to. */
  readonly leases: readonly [number, number];
  /** Makes it happen; resolves when it is healed. `lasting` resolves when its time is over, or the round's faults are. */
  act(stage: Stage, fault: PlannedFault, lasting: () => Promise<void>): Promise<void>;
}
