// A MultiLock keeps the contract of all locks, on a server in memory.
import { memoryContract } from '../../support/memory-contract.js';

memoryContract('multi lock');
