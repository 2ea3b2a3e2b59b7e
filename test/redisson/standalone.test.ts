// holdfast and Redisson on one server.
import { besideRedisson } from '../support/redisson-contract.js';

besideRedisson('on one server', { isCluster: false });
