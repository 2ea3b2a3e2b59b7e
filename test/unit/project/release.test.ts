// Version, CHANGELOG and tag agree, and scripts/check-release.mjs notices when they do not.
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

describe('package.json', () => {
  const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };

  it('has the version of package-lock.json', () => {
    const { packages } = JSON.parse(readFileSync('package-lock.json', 'utf8')) as {
      packages: Record<string, { version: string }>;
    };
    expect(packages['']?.version).toBe(version);
  });

  it('has the newest version of the CHANGELOG', () => {
    const headings = [...readFileSync('CHANGELOG.md', 'utf8').matchAll(/^## (.+)$/gm)].map(
      ([, heading]) => heading,
    );
    expect(headings.find((heading) => heading !== '[Unreleased]')).toBe(version);
    expect(headings.indexOf('[Unreleased]')).toBeLessThan(1);
  });
});

describe('the check before a release', () => {
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'holdfast-release-'));
    mkdirSync(join(folder, 'scripts'));
    cpSync('scripts/check-release.mjs', join(folder, 'scripts/check-release.mjs'));
  });

  afterEach(() => {
    rmSync(folder, { recursive: true });
  });

  it('accepts a version that all name alike', () => {
    expect(check('v1.2.3', {})).toEqual({ status: 0, told: '1.2.3 may be released\n' });
    expect(
      check('v1.2.3', { changelog: '## [Unreleased]\n\n## [1.2.3] - 2026-01-01\n' }).status,
    ).toBe(0);
  });

  it.each([
    ['another tag', 'v1.2.4', {}, 'the tag is "v1.2.4", package.json has 1.2.3: expected v1.2.3'],
    ['no tag', '', {}, 'the tag is "", package.json has 1.2.3: expected v1.2.3'],
    ['another lock file', 'v1.2.3', { locked: '1.2.2' }, 'package-lock.json has 1.2.2'],
    ['an older CHANGELOG', 'v1.2.3', { changelog: '## 1.2.2\n' }, 'CHANGELOG.md is 1.2.2'],
    [
      'unreleased changes',
      'v1.2.3',
      { changelog: '## [Unreleased]\n\n- x\n\n## 1.2.3\n' },
      '[Unreleased]',
    ],
    ['no repository', 'v1.2.3', { repository: undefined }, 'package.json has no "repository"'],
  ])('refuses %s', (_, tag, files, why) => {
    const { status, told } = check(tag, files);
    expect(status).toBe(1);
    expect(told).toContain(why);
    expect(told.trim().split('\n')).toHaveLength(1);
  });

  interface Files {
    locked?: string;
    changelog?: string;
    repository?: string | undefined;
  }

  function check(tag: string, files: Files): { status: number | null; told: string } {
    const { locked = '1.2.3', changelog = '## 1.2.3\n\n- y\n\n## 1.2.2\n' } = files;
    const repository = 'repository' in files ? files.repository : 'github:somebody/holdfast';
    write('package.json', JSON.stringify({ version: '1.2.3', repository }));
    write('package-lock.json', JSON.stringify({ version: locked }));
    write('CHANGELOG.md', `# Changelog\n\n${changelog}`);
    const script = join(folder, 'scripts/check-release.mjs');
    const { status, stdout, stderr } = spawnSync(process.execPath, [script, ...(tag ? [tag] : [])]);
    return { status, told: `${String(stdout)}${String(stderr)}` };
  }

  function write(file: string, text: string): void {
    writeFileSync(join(folder, file), text);
  }
});
