// The keys of a server in memory: their order, and what a failover takes back.
import { describe, expect, it } from 'vitest';
import { COMMANDS } from '../../../src/testing/commands.js';
import { Keyspace, MOST_UNDONE } from '../../../src/testing/keyspace.js';

function call(keys: Keyspace, name: string, ...args: string[]): unknown {
  return COMMANDS[name]!(keys, ...args);
}

describe('a sorted set', () => {
  it('has equal scores in the order of their bytes', () => {
    const keys = new Keyspace(false);
    const members = ['z', 'ü', '\uffee', '\u{1f600}', '\u{1f601}'];
    for (const member of [...members].reverse()) call(keys, 'ZADD', 'set', '1', member);
    call(keys, 'ZADD', 'set', '0', 'first', '2', 'last');
    expect(call(keys, 'ZRANGE', 'set', '0', '-1')).toEqual(['first', ...members, 'last']);
  });

  it('has each member once, with its latest score', () => {
    const keys = new Keyspace(false);
    expect(call(keys, 'ZADD', 'set', '1', 'a', '2', 'b')).toBe(2);
    expect(call(keys, 'ZADD', 'set', '3', 'a')).toBe(0);
    expect(call(keys, 'ZRANGE', 'set', '0', '-1', 'WITHSCORES')).toEqual(['b', '2', 'a', '3']);
    expect(call(keys, 'ZREM', 'set', 'b', 'none')).toBe(1);
    expect(call(keys, 'ZREM', 'set', 'a')).toBe(1);
    expect(call(keys, 'EXISTS', 'set')).toBe(0);
  });
});

describe('writes that are taken back', () => {
  const write = (keys: Keyspace, atMs: number, ...command: [string, ...string[]]): void => {
    keys.run(atMs * 1_000, () => call(keys, ...command));
  };

  it('leave keys as they were before, with their ends', () => {
    const keys = new Keyspace(true);
    write(keys, 1, 'HSET', 'hash', 'a', '1');
    write(keys, 1, 'PEXPIREAT', 'hash', '100');
    write(keys, 1, 'ZADD', 'set', '1', 'a');
    write(keys, 2, 'HSET', 'hash', 'a', '2', 'b', '3');
    write(keys, 3, 'PEXPIREAT', 'hash', '200');
    write(keys, 3, 'HDEL', 'hash', 'none');
    write(keys, 4, 'ZADD', 'set', '2', 'b');
    write(keys, 5, 'DEL', 'set');
    write(keys, 6, 'SET', 'text', 'new');
    expect(keys.writesSince(3)).toBe(3);
    keys.undo(5);
    expect(keys.names).toEqual(['hash', 'set']);
    expect(call(keys, 'HGETALL', 'hash')).toEqual(['a', '1']);
    expect(call(keys, 'PTTL', 'hash')).toBe(100 - 6);
    expect(call(keys, 'ZRANGE', 'set', '0', '-1')).toEqual(['a']);
    keys.undo(100);
    expect(keys.names).toEqual([]);
  });

  it('are the newest', () => {
    const keys = new Keyspace(true);
    for (let i = 0; i < MOST_UNDONE + 10; i++) write(keys, i, 'SET', 'text', String(i));
    keys.undo(MOST_UNDONE);
    expect(call(keys, 'GET', 'text')).toBe('9');
  });
});
