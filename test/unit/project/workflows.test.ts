// The workflows and the compose file keep their promises.
import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';

const FOLDER = '.github/workflows';
const workflows = readdirSync(FOLDER).map((file) => ({
  file,
  text: readFileSync(`${FOLDER}/${file}`, 'utf8'),
}));

describe.each(workflows)('$file', ({ text }) => {
  it('pins each action by its commit, and names its version', () => {
    const uses = [...text.matchAll(/uses: (.+)$/gm)].map(([, action]) => action!);
    expect(uses.length).toBeGreaterThan(0);
    const pinned = /^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/;
    expect(uses.filter((action) => !action.startsWith('./') && !pinned.test(action))).toEqual([]);
  });

  it('may write nothing unless a job says so', () => {
    expect((parse(text) as Workflow).permissions).toEqual({ contents: 'read' });
  });
});

it('an action has one commit in all workflows', () => {
  const commits = new Map<string, Set<string>>();
  for (const { text } of workflows) {
    for (const [, action = '', commit = ''] of text.matchAll(/uses: ([\w-]+\/[\w-]+)@(.+)$/gm))
      commits.set(action, (commits.get(action) ?? new Set()).add(commit));
  }
  expect([...commits.values()].map(({ size }) => size)).toEqual([...commits].map(() => 1));
});

it('the tests run on every supported line of Node.js', () => {
  const { jobs } = workflow('ci.yml');
  for (const job of ['check', 'servers'])
    expect(jobs[job]?.strategy?.matrix['node']).toEqual([20, 22, 24, 26]);
});

describe('the release', () => {
  const { on, jobs } = workflow('release.yml');

  it('is for a tag of a version', () => {
    expect(on).toEqual({ push: { tags: ['v*'] } });
  });

  it('is checked and tested before anything is published', () => {
    expect(commandsOf(jobs['check'])).toContain(
      'node scripts/check-release.mjs "$GITHUB_REF_NAME"',
    );
    expect(jobs['test']).toMatchObject({ needs: 'check', uses: './.github/workflows/ci.yml' });
    expect(jobs['publish']).toMatchObject({ needs: 'test', environment: 'npm' });
  });

  it('proves where it was built', () => {
    expect(jobs['publish']?.permissions).toEqual({ contents: 'read', 'id-token': 'write' });
    expect(commandsOf(jobs['publish'])).toContain('npm publish --provenance --access public');
  });

  function commandsOf(job: Job | undefined): unknown[] {
    return (job?.steps ?? []).map(({ run }) => run);
  }
});

describe('the compose file', () => {
  const { services } = parse(readFileSync('docker-compose.yml', 'utf8'), {
    merge: true,
    maxAliasCount: -1,
  }) as {
    services: Record<string, Service>;
  };
  const of = (profile: string): Service[] =>
    Object.values(services).filter(({ profiles }) => profiles.includes(profile));

  it.each(Object.entries(services))('checks the health of %s', (_, { healthcheck }) => {
    expect(healthcheck?.test).toEqual(['CMD-SHELL', expect.any(String)]);
  });

  it('has a replica for each master of the cluster', () => {
    const [create] = of('cluster').filter(({ command }) =>
      String(command).includes('--cluster create'),
    );
    expect(String(create?.command)).toContain('--cluster-replicas 1');
    expect(
      of('cluster').filter(({ command }) => String(command).includes('redis-server')),
    ).toHaveLength(6);
  });

  it('has a Valkey', () => {
    expect(of('valkey')).toMatchObject([
      { image: expect.stringMatching(/^valkey\/valkey:/) as string },
    ]);
  });

  it('is documented in full', () => {
    const profiles = [...new Set(Object.values(services).flatMap((service) => service.profiles))];
    const told = /`docker compose --profile (\w+) up`.*?also ([^)]+)\)/.exec(
      readFileSync('CONTRIBUTING.md', 'utf8'),
    );
    const names = [
      told?.[1],
      ...[...(told?.[2] ?? '').matchAll(/`(\w+)`/g)].map(([, name]) => name),
    ];
    expect(names.sort()).toEqual(profiles.sort());
  });
});

interface Job {
  readonly permissions?: object;
  readonly strategy?: { readonly matrix: Record<string, unknown> };
  readonly steps?: readonly { readonly run?: string }[];
}

interface Workflow {
  readonly on: unknown;
  readonly permissions: unknown;
  readonly jobs: Record<string, Job>;
}

interface Service {
  readonly image: string;
  readonly profiles: readonly string[];
  readonly command: unknown;
  readonly healthcheck?: { readonly test: unknown };
}

function workflow(file: string): Workflow {
  return parse(readFileSync(`${FOLDER}/${file}`, 'utf8')) as Workflow;
}
