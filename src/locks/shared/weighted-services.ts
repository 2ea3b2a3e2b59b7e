// What the weighted locks of one client share on one Redis: their lines, who may be let in, and how leases and places are renewed.

import { scripts } from '../../redis/scripts.generated.js';
import type { RedisClient } from '../../redis/client.js';
import { Lines } from '../../waiting/lines.js';
import type { FairLine } from '../fair/fair-line.js';
import { Grantees } from '../fair/grantees.js';
import { PlaceRenewer, type PlaceScript } from '../fair/place-renewer.js';
import { WeightedRenewer } from './weighted-renewer.js';

const WEIGHTED: PlaceScript = {
  kind: 'weighted place',
  script: scripts.weightedRenewPlaces,
  keysOf: ({ lock, leases, line, places }) => [lock, leases, line, places],
};

export class WeightedServices {
  readonly grantees: Grantees = new Grantees();
  readonly lines: Lines<FairLine> = new Lines<FairLine>();
  readonly renewer: PlaceRenewer;
  readonly holds: WeightedRenewer;

  constructor(connection: RedisClient) {
    this.renewer = new PlaceRenewer(connection, WEIGHTED);
    this.holds = new WeightedRenewer(connection);
  }
}
