// A fair lock keeps the contract of all locks, on a server in memory.
import { memoryContract } from '../../support/memory-contract.js';

memoryContract('fair lock');
