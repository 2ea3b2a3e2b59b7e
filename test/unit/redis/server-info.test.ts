// What a server says of itself, and whether it is new enough.
import { describe, expect, it } from 'vitest';
import {
  isTooOld,
  majorVersion,
  parseServerInfo,
  tooOldMessage,
} from '../../../src/redis/server-info.js';

describe('the version', () => {
  it('is read from INFO', () => {
    const info =
      '# Server\r\nredis_version:7.0.15\r\nredis_git_sha1:00000000\r\nredis_mode:standalone\r\n';
    expect(parseServerInfo(info)).toEqual({ version: '7.0.15' });
  });

  it('is the Redis one that Valkey reports too, not Valkey’s own', () => {
    const info =
      '# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.0\r\n';
    expect(parseServerInfo(info)).toEqual({ version: '7.2.4' });
  });

  it('is unknown when the server does not tell', () => {
    expect(parseServerInfo('')).toEqual({ version: undefined });
    expect(parseServerInfo('# Server\r\nmy_redis_version:1\r\n')).toEqual({ version: undefined });
  });

  it('has a major part, 0 when unknown', () => {
    expect(majorVersion({ version: '7.0.15' })).toBe(7);
    expect(majorVersion({ version: '10.2' })).toBe(10);
    expect(majorVersion({ version: undefined })).toBe(0);
  });
});

describe('a server', () => {
  it.each(['2.8.24', '3.0.0', '5.0.14', '6.0.16', '6.1.240'])(
    'of version %s is too old',
    (version) => {
      expect(isTooOld({ version })).toBe(true);
      expect(tooOldMessage({ version })).toContain(version);
      expect(tooOldMessage({ version })).toContain('6.2');
    },
  );

  it.each(['6.2.0', '6.2.14', '6.10.0', '7.0.0', '7.4.1', '8.0.0', '10.0.0', '255.255.255'])(
    'of version %s is new enough',
    (version) => {
      expect(isTooOld({ version })).toBe(false);
    },
  );

  it('that does not tell its version is taken to be new enough', () => {
    expect(isTooOld({ version: undefined })).toBe(false);
  });
});
