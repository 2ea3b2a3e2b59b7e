// The menu of the docs site, and the pages of it that stand elsewhere in the repository.
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { DefaultTheme } from 'vitepress';

interface Link {
  text: string;
  link: string;
}

export const ROOT: string = fileURLToPath(new URL('../..', import.meta.url));

/** Pages that stand elsewhere, and where in docs/ their copies are, which git ignores. */
export const COPIES: Readonly<Record<string, string>> = {
  'lua/README.md': 'project/scripts.md',
  'CONTRIBUTING.md': 'project/contributing.md',
  'SECURITY.md': 'project/security.md',
  'CHANGELOG.md': 'project/changelog.md',
  'benchmarks/README.md': 'project/benchmarks.md',
  'benchmarks/results/README.md': 'project/benchmark-results.md',
  'test/chaos/README.md': 'project/chaos.md',
  'test/model/README.md': 'project/model.md',
};

const tutorial: Link = { text: 'Tutorial', link: '/tutorial.md' };

const howTo: DefaultTheme.SidebarItem[] = [
  part('Put locks to work', [
    page('What do you want to do?', 'how-to/index'),
    page('In a web service', 'how-to/web-service'),
    page('NestJS', 'how-to/nestjs'),
    page('Fastify', 'how-to/fastify'),
    page('A leader of many processes', 'how-to/leader-election'),
    page('Pass a hold to another process', 'how-to/pass-a-hold-on'),
    page('Cron jobs', 'how-to/cron'),
    page('A cache that many refresh', 'how-to/cache-stampede'),
    page('Job queues', 'how-to/job-queue'),
    page('Limit what runs at a time', 'how-to/rate-limiting'),
    page('Retry safely', 'how-to/retry-safely'),
    page('Choose a lease', 'how-to/choose-a-lease'),
  ]),
  part('Run it', [
    page('When Redis is down', 'how-to/redis-is-down'),
    page('Connections', 'how-to/connections'),
    page('TLS', 'how-to/tls'),
    page('Permissions', 'how-to/permissions'),
    page('Redis Cluster', 'how-to/cluster'),
    page('Sentinel', 'how-to/sentinel'),
    page('Replicas', 'how-to/replicas'),
    page('Shut down', 'how-to/shutdown'),
    page('Upgrade', 'how-to/upgrade'),
    page('Serverless', 'how-to/serverless'),
    page('Bundlers', 'how-to/bundlers'),
    page('Develop', 'how-to/development'),
    page('Test your code', 'how-to/testing'),
    page('Find out who holds a lock', 'how-to/debug'),
    page('A live page of the locks', 'how-to/live-page'),
    page('Metrics and traces', 'how-to/metrics'),
  ]),
  part('Move from another library', [
    page('From redlock', 'how-to/from-redlock'),
    page('From redis-semaphore', 'how-to/from-redis-semaphore'),
    page('From node-redisson', 'how-to/from-node-redisson'),
    page('From Redisson', 'how-to/from-redisson'),
  ]),
];

const reference: DefaultTheme.SidebarItem[] = [
  part('Reference', [
    page('Locks', 'reference/locks'),
    page('Options', 'reference/options'),
    page('Errors', 'reference/errors'),
    page('Events', 'reference/events'),
    page('Command line', 'reference/cli'),
    page('Keys and channels', 'reference/keys'),
    page('Memory', 'reference/memory'),
    { text: 'API', link: '/reference/api/' },
  ]),
];

const explanation: DefaultTheme.SidebarItem[] = [
  part('How it works', [
    page('Who owns a lock', 'explanation/ownership'),
    page('Leases and the watchdog', 'explanation/leases'),
    page('How waiting works', 'explanation/queue'),
    page('Hand-over and fairness', 'explanation/hand-over'),
    page('Kept locks', 'explanation/kept-locks'),
    page('Redlock and MultiLock', 'explanation/redlock'),
    page('Fencing tokens', 'explanation/fencing'),
  ]),
  part('What to expect', [
    page('What happens when', 'explanation/failures'),
    page('Guarantees and limits', 'explanation/safety'),
    page('How fast it is', 'explanation/benchmarks'),
    page('Compared with other libraries', 'explanation/comparison'),
  ]),
  part('For contributors', [
    page('Architecture', 'architecture'),
    page('The scripts and their data', 'project/scripts'),
    page('Contributing', 'project/contributing'),
    page('The fault campaign', 'project/chaos'),
    page('The model', 'project/model'),
    page('Running the benchmarks', 'project/benchmarks'),
    page('All benchmark results', 'project/benchmark-results'),
    page('Security', 'project/security'),
    page('Changes', 'project/changelog'),
  ]),
];

export const NAV: DefaultTheme.NavItem[] = [
  tutorial,
  { text: 'How-to', link: '/how-to/index.md', activeMatch: '^/how-to/' },
  { text: 'Reference', link: '/reference/locks.md', activeMatch: '^/reference/' },
  { text: 'How it works', link: '/explanation/ownership.md', activeMatch: '^/explanation/' },
];

export const SIDEBAR: DefaultTheme.Sidebar = {
  // A menu of its own: it is long, and would be in each page.
  '/reference/api/': [page('Locks', 'reference/locks'), ...apiPages()],
  '/': [tutorial, ...howTo, ...reference, ...explanation],
};

function part(text: string, items: Link[]): DefaultTheme.SidebarItem {
  return { text, items, collapsed: false };
}

function page(text: string, path: string): Link {
  return { text, link: `/${path}.md` };
}

/** What typedoc has written, by names that one imports; nothing if it has not run. */
function apiPages(): DefaultTheme.SidebarItem[] {
  const sidebar = `${ROOT}docs/reference/api/typedoc-sidebar.json`;
  if (!existsSync(sidebar)) return [];
  const modules = JSON.parse(readFileSync(sidebar, 'utf8')) as DefaultTheme.SidebarItem[];
  return modules.flatMap((item) => {
    if (item.text === 'index') return { ...item, text: 'holdfast' };
    if (item.text === 'adapters')
      return (item.items ?? []).map((each) => ({ ...each, text: `holdfast/${each.text ?? ''}` }));
    const exported = item.text === 'telemetry' ? 'opentelemetry' : item.text;
    return { ...item.items?.[0], text: `holdfast/${exported ?? ''}` };
  });
}
