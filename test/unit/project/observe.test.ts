// docker compose --profile observe: what its dashboard asks for is what the demo's workers publish, and what its containers mount exists.
import { existsSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { PrometheusExporter, PrometheusSerializer } from '@opentelemetry/exporter-prometheus';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { parse } from 'yaml';
import { lockLabel, work } from '../../../demo/observe/work.js';
import { instrument } from '../../../src/telemetry/opentelemetry.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';
import { Random } from '../../chaos/random.js';
import { expectOutages } from '../../support/expected-warnings.js';

const FOLDER = 'demo/observe';

interface Panel {
  readonly title: string;
  readonly datasource: { readonly uid: string };
  readonly gridPos: {
    readonly x: number;
    readonly y: number;
    readonly w: number;
    readonly h: number;
  };
  readonly targets: readonly { readonly expr: string; readonly legendFormat: string }[];
}

interface Service {
  readonly profiles: readonly string[];
  readonly volumes?: readonly string[];
  readonly ports?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly working_dir?: string;
  readonly command?: readonly string[];
}

/** The labels of each metric, and their values. */
type Metrics = ReadonlyMap<string, ReadonlyMap<string, ReadonlySet<string>>>;

const dashboard = JSON.parse(readFileSync(`${FOLDER}/dashboard.json`, 'utf8')) as {
  readonly uid: string;
  readonly panels: readonly Panel[];
};
const { services } = parse(readFileSync('docker-compose.yml', 'utf8'), {
  merge: true,
  maxAliasCount: -1,
}) as { services: Record<string, Service> };
const of = (name: string): Service => services[`observe-${name}`]!;

let metrics: Metrics;

expectOutages();

/** The workers of the demo work for a minute and a half on a server in memory, which is down for a moment. */
beforeAll(async () => {
  vi.useFakeTimers();
  // With other numbers, perhaps no renewal is under way while the server is down.
  const random = new Random(1);
  vi.spyOn(Math, 'random').mockImplementation(() => random.next());
  const exporter = new PrometheusExporter({ preventServerStart: true });
  const meterProvider = new MeterProvider({ readers: [exporter] });
  const instrumentation = instrument(undefined, { meterProvider, lockLabel });
  const redis = new MemoryRedis();
  const ended = new AbortController();
  const working = work(redis, ended.signal);
  await vi.advanceTimersByTimeAsync(80_000);
  redis.down();
  await vi.advanceTimersByTimeAsync(1_000);
  redis.up();
  await vi.advanceTimersByTimeAsync(9_000);
  const { resourceMetrics } = await exporter.collect();
  metrics = metricsIn(new PrometheusSerializer().serialize(resourceMetrics));
  ended.abort();
  await vi.advanceTimersByTimeAsync(20_000);
  await working;
  instrumentation.stop();
  await meterProvider.shutdown();
}, 60_000);

afterAll(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

describe('the dashboard', () => {
  const { panels } = dashboard;
  const queries = panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));

  it('asks for what the workers publish', () => {
    expect(queries.length).toBeGreaterThanOrEqual(12);
    expect(queries.flatMap((query) => unknownIn(query, metrics))).toEqual([]);
  });

  it('shows all metrics', () => {
    const shown = new Set(queries.flatMap((query) => namesIn(query).metrics.map(instrumentOf)));
    const published = [...metrics.keys()].filter((name) => name.startsWith('holdfast_'));
    expect(shown).toEqual(new Set(published.map(instrumentOf)));
  });

  it('names each line by a label of its query', () => {
    for (const { targets } of panels)
      for (const { expr, legendFormat } of targets) {
        const named = [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label]) => label);
        expect(namesIn(expr).grouped.filter((label) => label !== 'le')).toEqual(named);
      }
  });

  it('has no two panels in one place', () => {
    const places = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, cell) => `${x + (cell % w)},${y + Math.floor(cell / w)}`),
    );
    expect(new Set(places).size).toBe(places.length);
    expect(panels.every(({ gridPos: { x, w } }) => x + w <= 24)).toBe(true);
  });
});

describe('docs/how-to/metrics.md', () => {
  const page = readFileSync('docs/how-to/metrics.md', 'utf8');
  const rows = [...page.matchAll(/^\| `(holdfast\.[\w.]+|error\.type)` +\| (.*) \|$/gm)].map(
    ([, name = '', cells = '']) => ({ name, last: cells.split(' | ').at(-1)! }),
  );
  const inPrometheus = (name: string): string => name.replaceAll('.', '_');

  it('lists every metric, with its attributes', () => {
    for (const [name, labels] of metrics) {
      if (!name.startsWith('holdfast_')) continue;
      const row = rows.find((each) => instrumentOf(name) === inPrometheus(each.name));
      const told = [...(row?.last ?? '').matchAll(/`([^`]+)`/g)].map(([, label = '']) => label);
      const found = [...labels.keys()].filter(
        (label) => !/^(otel_|le$|holdfast_lock_label$)/.test(label),
      );
      expect([name, told.map(inPrometheus).sort()]).toEqual([name, found.sort()]);
    }
  });

  it('lists every value of an attribute', () => {
    for (const labels of metrics.values())
      for (const [label, values] of labels) {
        const row = rows.findLast(({ name }) => inPrometheus(name) === label);
        if (!row || ['error_type', 'holdfast_lock_kind', 'holdfast_lock_label'].includes(label))
          continue;
        const told = [...row.last.matchAll(/`([^`]+)`/g)].map(([, value]) => value);
        expect(told).toEqual(expect.arrayContaining([...values]));
      }
  });

  it('asks for what there is', () => {
    const [, text = ''] = /^```text\n(.*?)^```$/ms.exec(page) ?? [];
    const queries = text.trim().split('\n');
    expect(queries.length).toBeGreaterThanOrEqual(4);
    expect(queries.flatMap((query) => unknownIn(query, metrics))).toEqual([]);
  });
});

describe('the check of queries', () => {
  it.each([
    ['sum(holdfast_hold_cuont)', 'no metric holdfast_hold_cuont'],
    ['rate(holdfast_losses[5m])', 'no metric holdfast_losses'],
    ['sum by (holdfast_lock_knid) (holdfast_hold_count)', 'no label holdfast_lock_knid'],
    ['holdfast_hold_count{holdfast_via="local"}', 'no label holdfast_via'],
    [
      'rate(holdfast_acquire_duration_count{holdfast_outcome!="aquired"}[$__rate_interval])',
      'no holdfast_outcome="aquired"',
    ],
  ])('finds what is misspelt in %s', (query, finding) => {
    expect(unknownIn(query, metrics).join('\n')).toContain(finding);
  });

  it('takes no function, keyword, range or number for a metric', () => {
    const query =
      'histogram_quantile(0.95, sum by (le) (rate(a_bucket{b="c d"}[5m] offset 1h))) > 2 or vector(0)';
    expect(namesIn(query)).toEqual({
      metrics: ['a_bucket'],
      grouped: ['le'],
      matched: [{ label: 'b', value: 'c d' }],
    });
  });
});

describe('the containers', () => {
  const mounts = Object.entries(services)
    .filter(([, { profiles }]) => profiles.includes('observe'))
    .flatMap(([name, { volumes = [] }]) => volumes.map((volume) => [name, volume] as const));
  const fileAt = (name: string, path: string): string | undefined => {
    const [source] = (of(name).volumes ?? [])
      .map((volume) => volume.split(':'))
      .filter(([, target = '']) => path === target || path.startsWith(`${target}/`))
      .map(([from = '', target = '']) => posix.join(from, path.slice(target.length)));
    return source;
  };
  const read = (file: string): unknown => parse(readFileSync(`${FOLDER}/${file}`, 'utf8'));

  it('mount what exists', () => {
    const files = mounts
      .map(([, volume]) => volume.split(':')[0]!)
      .filter((from) => from.startsWith('.'));
    expect(files).toHaveLength(8);
    expect(files.filter((file) => !existsSync(file))).toEqual([]);
  });

  it('run the workers, with all that they import', () => {
    const { command, working_dir: folder = '' } = of('work');
    const [, file = ''] = /tsx (\S+)$/m.exec(command?.join('\n') ?? '') ?? [];
    expect(fileAt('work', posix.join(folder, file))).toBe(`${FOLDER}/work.ts`);
    const imported = readFileSync(`${FOLDER}/work.ts`, 'utf8').matchAll(/ from '(\.[^']+)'/g);
    for (const [, path = ''] of imported)
      expect(fileAt('work', posix.join(folder, FOLDER, path))).toMatch(/^src\//);
  });

  it('let Prometheus read the workers', () => {
    expect(fileAt('prometheus', '/etc/prometheus/prometheus.yml')).toBe(`${FOLDER}/prometheus.yml`);
    expect(read('prometheus.yml')).toMatchObject({
      scrape_configs: [{ static_configs: [{ targets: ['observe-work:9464'] }] }],
    });
    expect(readFileSync(`${FOLDER}/work.ts`, 'utf8')).toContain('const PORT = 9464;');
  });

  it('give Grafana the dashboard, and the Prometheus that it asks', () => {
    const provisioning = '/etc/grafana/provisioning';
    expect(fileAt('grafana', `${provisioning}/datasources/datasource.yml`)).toBe(
      `${FOLDER}/datasource.yml`,
    );
    expect(fileAt('grafana', `${provisioning}/dashboards/dashboards.yml`)).toBe(
      `${FOLDER}/dashboards.yml`,
    );
    const { providers } = read('dashboards.yml') as {
      providers: [{ options: { path: string } }];
    };
    const shown = `${providers[0].options.path}/dashboard.json`;
    expect(fileAt('grafana', shown)).toBe(`${FOLDER}/dashboard.json`);
    expect(of('grafana').environment).toMatchObject({
      GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH: shown,
    });
    const { datasources } = read('datasource.yml') as {
      datasources: [{ uid: string; url: string }];
    };
    expect(datasources[0].url).toBe('http://observe-prometheus:9090');
    const asked = new Set(dashboard.panels.map(({ datasource }) => datasource.uid));
    expect(asked).toEqual(new Set([datasources[0].uid]));
  });
});

function metricsIn(text: string): Metrics {
  const found = new Map<string, Map<string, Set<string>>>();
  for (const [, name = '', labels = ''] of text.matchAll(/^(\w+)(?:\{(.*)\})? \S+$/gm)) {
    const known = found.get(name) ?? new Map<string, Set<string>>();
    found.set(name, known);
    for (const [, label = '', value = ''] of labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g))
      known.set(label, (known.get(label) ?? new Set()).add(value));
  }
  return found;
}

interface Names {
  readonly metrics: string[];
  /** By which labels results are grouped. */
  readonly grouped: string[];
  readonly matched: { readonly label: string; readonly value: string }[];
}

/** What a query in PromQL names. */
function namesIn(query: string): Names {
  const matched = [...query.matchAll(/([a-z_]\w*)\s*!?=~?\s*"([^"]*)"/gi)].map(
    ([, label = '', value = '']) => ({ label, value }),
  );
  const grouping = /\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)/g;
  const grouped = [...query.matchAll(grouping)].flatMap(([, labels = '']) =>
    labels.split(',').map((label) => label.trim()),
  );
  const rest = query.replace(/\{[^}]*\}|\[[^\]]*\]/g, ' ').replace(grouping, ' ');
  const words = rest.matchAll(/(?<![\w.])[a-z_:][\w:]*(?!\w)(?!\s*\()/gi);
  const KEYWORDS = ['offset', 'and', 'or', 'unless', 'bool', 'inf', 'nan', 'by', 'sum'];
  const metrics = [...words].map(([word]) => word).filter((word) => !KEYWORDS.includes(word));
  return { metrics, grouped, matched };
}

function unknownIn(query: string, known: Metrics): string[] {
  const { metrics: names, grouped, matched } = namesIn(query);
  return names.flatMap((name) => {
    const labels = known.get(name);
    if (!labels) return [`no metric ${name}: ${query}`];
    const unknown = [...grouped, ...matched.map(({ label }) => label)]
      .filter((label) => !labels.has(label))
      .map((label) => `no label ${label} of ${name}: ${query}`);
    const never = matched
      .filter(({ label, value }) => labels.has(label) && !labels.get(label)?.has(value))
      .map(({ label, value }) => `no ${label}="${value}" of ${name}: ${query}`);
    return [...unknown, ...never];
  });
}

/** A histogram has three series. */
function instrumentOf(metric: string): string {
  return metric.replace(/_duration_(bucket|count|sum)$/, '_duration').replace(/_total$/, '');
}
