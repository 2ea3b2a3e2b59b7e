// The docs site, built by `npm run docs` into dist/ beside this file. Nothing of it is fetched from anywhere: fonts, icons and the search index are its own.
import { cpSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig, type DefaultTheme, type MarkdownOptions } from 'vitepress';

type MarkdownIt = Parameters<NonNullable<MarkdownOptions['config']>>[0];

/** A page in the menus. */
interface Link {
  text: string;
  link: string;
}

const root = fileURLToPath(new URL('../..', import.meta.url));

/** Pages that stand elsewhere in the repository, and their copies in the site, which git ignores. */
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

for (const [file, page] of Object.entries(COPIES)) {
  mkdirSync(dirname(`${root}docs/${page}`), { recursive: true });
  cpSync(`${root}${file}`, `${root}docs/${page}`);
}

const tutorial: Link = { text: 'Tutorial', link: '/tutorial.md' };

const howTo: DefaultTheme.SidebarItem[] = [
  part('Put locks to work', [
    page('In a web service', 'how-to/web-service'),
    page('A leader of many processes', 'how-to/leader-election'),
    page('Cron jobs', 'how-to/cron'),
    page('A cache that many refresh', 'how-to/cache-stampede'),
    page('Job queues', 'how-to/job-queue'),
    page('Limit what runs at a time', 'how-to/rate-limiting'),
    page('Retry safely', 'how-to/retry-safely'),
    page('Choose a lease', 'how-to/choose-a-lease'),
  ]),
  part('Run it', [
    page('Connections', 'how-to/connections'),
    page('Permissions', 'how-to/permissions'),
    page('Redis Cluster', 'how-to/cluster'),
    page('Sentinel', 'how-to/sentinel'),
    page('Replicas', 'how-to/replicas'),
    page('Shut down', 'how-to/shutdown'),
    page('Serverless', 'how-to/serverless'),
    page('Bundlers', 'how-to/bundlers'),
    page('Test your code', 'how-to/testing'),
    page('Find out who holds a lock', 'how-to/debug'),
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
    page('Keys and channels', 'reference/keys'),
  ]),
  { text: 'API', link: '/reference/api/' },
];

const explanation: DefaultTheme.SidebarItem[] = [
  part('How it works', [
    page('Who owns a lock', 'explanation/ownership'),
    page('Leases and the watchdog', 'explanation/leases'),
    page('How waiting works', 'explanation/queue'),
    page('Hand-over and fairness', 'explanation/hand-over'),
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

export default defineConfig({
  title: 'holdfast',
  description: 'Distributed locks for Node.js on Redis or Valkey',
  cleanUrls: false, // so that any server of plain files will do
  appearance: 'force-auto', // as the charts, which follow the reader's system, too
  metaChunk: true,
  markdown: { config: resolveFromRepository },
  vite: { build: { chunkSizeWarningLimit: 2_000 } }, // the index of the search
  themeConfig: {
    nav: [
      tutorial,
      { text: 'How-to', link: '/how-to/web-service.md', activeMatch: '^/how-to/' },
      { text: 'Reference', link: '/reference/locks.md', activeMatch: '^/reference/' },
      { text: 'How it works', link: '/explanation/ownership.md', activeMatch: '^/explanation/' },
    ],
    // The pages of the API have a menu of their own, which is long, and would be in each page.
    sidebar: {
      '/reference/api/': [page('Locks', 'reference/locks'), ...apiPages()],
      '/': [tutorial, ...howTo, ...reference, ...explanation],
    },
    outline: 'deep',
    search: { provider: 'local' },
  },
});

function part(text: string, items: Link[]): DefaultTheme.SidebarItem {
  return { text, items, collapsed: false };
}

function page(text: string, path: string): Link {
  return { text, link: `/${path}.md` };
}

/** What typedoc has written, by names that one imports; nothing if it has not run. */
function apiPages(): DefaultTheme.SidebarItem[] {
  const sidebar = `${root}docs/reference/api/typedoc-sidebar.json`;
  if (!existsSync(sidebar)) return [];
  const modules = JSON.parse(readFileSync(sidebar, 'utf8')) as DefaultTheme.SidebarItem[];
  return modules.map((item) =>
    item.text === 'index'
      ? { ...item, text: 'holdfast' }
      : { ...item.items?.[0], text: 'holdfast/testing' },
  );
}

/**
 * Links and pictures are written as GitHub and an editor follow them, from the file's place in the repository. In the site, a page of
 * docs/ or a copy is linked as such; what is no page there (a folder, a source file) is named and not linked.
 */
function resolveFromRepository(md: MarkdownIt): void {
  const originals = Object.fromEntries(Object.entries(COPIES).map(([file, copy]) => [copy, file]));
  const isRelative = (path: string): boolean => !/^([a-z][a-z+.-]*:|#|\/)/i.test(path);
  md.core.ruler.push('from-repository', ({ tokens, env }) => {
    const { relativePath } = env as { relativePath?: string }; // none: it is the title of a container
    if (relativePath === undefined || relativePath.startsWith('reference/api/')) return;
    const folder = posix.dirname(originals[relativePath] ?? `docs/${relativePath}`);
    const inRepository = (path: string): string => posix.join(folder, path);
    const inSite = (href: string): string | undefined => {
      const [path = '', anchor] = href.split('#');
      const file = inRepository(path);
      const target = file === 'README.md' ? 'docs/index.md' : file;
      const link = COPIES[target] ?? (/^docs\/.*\.md$/.test(target) ? target.slice(5) : undefined);
      return link && `/${link}${anchor === undefined || target !== file ? '' : `#${anchor}`}`;
    };
    const picture = (html: string): string =>
      html.replace(/( src(?:set)?=")([^"]+)"/g, (whole, attribute: string, path: string) =>
        isRelative(path)
          ? `${attribute}./${posix.relative(posix.dirname(`docs/${relativePath}`), inRepository(path))}"`
          : whole,
      );
    for (const token of tokens) {
      token.content = token.type === 'html_block' ? picture(token.content) : token.content;
      let isUnlinked = false;
      token.children &&= token.children.filter((child) => {
        if (child.type === 'html_inline') child.content = picture(child.content);
        const href = child.type === 'link_open' ? child.attrGet('href') : null;
        if (href !== null) {
          const link = isRelative(href) ? inSite(href) : href;
          isUnlinked = link === undefined;
          if (link !== undefined) child.attrSet('href', link);
        }
        return !isUnlinked || !child.type.startsWith('link_');
      });
    }
  });
}
