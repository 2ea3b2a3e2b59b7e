// holdfast and Redisson in a cluster: on sharded channels where it has them.
import { besideRedisson } from '../support/redisson-contract.js';

besideRedisson('in a cluster', { isCluster: true });
