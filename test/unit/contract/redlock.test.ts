// A Redlock keeps the contract of all locks, over three servers in memory.
import { memoryRedlockContract } from '../../support/memory-contract.js';

memoryRedlockContract('Redlock');
