// node scripts/check-release.mjs v1.2.3: whether this commit may be released under that tag. Prints every reason against it.
import { readFileSync } from 'node:fs';

const read = (file) => readFileSync(new URL(`../${file}`, import.meta.url), 'utf8');
const [tag = ''] = process.argv.slice(2);
const { version, repository } = JSON.parse(read('package.json'));
const locked = JSON.parse(read('package-lock.json')).version;
const { newest, unreleased } = changes(read('CHANGELOG.md'));

const wrong = [];
if (tag !== `v${version}`)
  wrong.push(`the tag is "${tag}", package.json has ${version}: expected v${version}`);
if (locked !== version)
  wrong.push(`package-lock.json has ${locked}, package.json ${version}: run npm install`);
if (newest !== version)
  wrong.push(`the newest version in CHANGELOG.md is ${newest}, package.json has ${version}`);
if (unreleased)
  wrong.push('CHANGELOG.md has changes under [Unreleased]: give them, and package.json, a version');
if (!repository) {
  // npm compares it with the repository of the workflow, and refuses a provenance without it.
  wrong.push(
    'package.json has no "repository": set it to the URL of this repository, which npm needs for provenance',
  );
}

for (const what of wrong) console.error(`not to be released: ${what}`);
if (wrong.length > 0) process.exit(1);
console.log(`${version} may be released`);

/** The newest version that has a heading, and whether there is an unreleased section above it. */
function changes(text) {
  const [, ...parts] = text.split(/^## /m);
  const isOpen = (part) => part.startsWith('[Unreleased]');
  const newest = parts.find((part) => !isOpen(part));
  return {
    newest: /^\[?(\d+\.\d+\.\d+[^\s\]]*)/.exec(newest ?? '')?.[1] ?? 'missing',
    unreleased: parts.some((part) => isOpen(part) && part.replace('[Unreleased]', '').trim()),
  };
}
