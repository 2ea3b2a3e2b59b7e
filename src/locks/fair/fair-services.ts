// What the fair locks of one client share on one Redis: their lines, who may be granted one, and how places are renewed.

import type { RedisClient } from '../../redis/client.js';
import { Lines } from '../../waiting/lines.js';
import type { FairLine } from './fair-line.js';
import { Grantees } from './grantees.js';
import { PlaceRenewer } from './place-renewer.js';

export class FairServices {
  readonly grantees: Grantees = new Grantees();
  readonly lines: Lines<FairLine> = new Lines<FairLine>();
  readonly renewer: PlaceRenewer;

  constructor(connection: RedisClient) {
    this.renewer = new PlaceRenewer(connection);
  }
}
