// The docs site, built by `npm run docs` into dist/ beside this file. Nothing of it is fetched from anywhere: fonts, icons and the search index are its own.
import { cpSync, mkdirSync } from 'node:fs';
import { dirname, posix } from 'node:path';
import { renderMermaidSVG } from 'beautiful-mermaid';
import { defineConfig, type MarkdownOptions } from 'vitepress';
import { COPIES, NAV, ROOT, SIDEBAR } from './menu.js';

type MarkdownIt = Parameters<NonNullable<MarkdownOptions['config']>>[0];

for (const [file, page] of Object.entries(COPIES)) {
  mkdirSync(dirname(`${ROOT}docs/${page}`), { recursive: true });
  cpSync(ROOT + file, `${ROOT}docs/${page}`);
}

export default defineConfig({
  title: 'holdfast',
  description: 'Distributed locks for Node.js on Redis or Valkey',
  cleanUrls: false, // so that any server of plain files will do
  appearance: 'force-auto', // as the charts, which follow the reader's system, too
  metaChunk: true,
  markdown: {
    config: (md) => {
      resolveFromRepository(md);
      drawDiagrams(md);
    },
  },
  vite: { build: { chunkSizeWarningLimit: 2_000 } }, // the index of the search
  themeConfig: { nav: NAV, sidebar: SIDEBAR, outline: 'deep', search: { provider: 'local' } },
});

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

/** A mermaid block, which GitHub draws, is a picture in the site, too: light or dark as the reader's system, and with no font from elsewhere. */
function drawDiagrams({ renderer: { rules } }: MarkdownIt): void {
  const { fence } = rules;
  rules.fence = (tokens, index, ...rest) => {
    const { info = '', content = '' } = tokens[index] ?? {};
    if (info !== 'mermaid') return fence?.(tokens, index, ...rest) ?? '';
    const [bg, fg] = ['light-dark(#fff, #1b1b1f)', 'light-dark(#222, #ddd)'];
    const svg = renderMermaidSVG(content, { bg, fg, muted: fg, transparent: true })
      .replace(/@import .*/, '')
      .replace('style="', 'style="color-scheme:light dark;');
    const picture = `<img src="data:image/svg+xml,${encodeURIComponent(svg)}" alt="The diagram that the text around it describes" style="max-width:none">`;
    return `<div style="overflow-x:auto">${picture}</div>`;
  };
}
