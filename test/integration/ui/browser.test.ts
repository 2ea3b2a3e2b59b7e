// The live page in a real browser: what is seen follows what happens. Debian's Chromium, driven over its protocol.
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import puppeteer, { type Browser, type Page } from 'puppeteer-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import type { Holdfast } from '../../../src/index.js';
import { serve, type Served } from '../../../src/ui/serve.js';
import { ui } from '../../../src/ui/ui.js';
import { connectedClient, newClient, nextEvent, sharedConnection } from '../../support/clients.js';
import { expectOutages } from '../../support/expected-warnings.js';
import { startRedis } from '../../support/redis-server.js';
import { uniqueName } from '../../support/unique-name.js';

const CHROMIUM = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(
  (path) => existsSync(path),
);

const FLAGS = [
  ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-sync'],
  ...['--disable-background-networking', '--disable-component-update'],
];

const title = CHROMIUM
  ? 'the live page in a browser'
  : 'the live page in a browser (left out: there is no Chromium)';

describe.skipIf(CHROMIUM === undefined)(title, () => {
  const redis = sharedConnection();
  let folder: string;
  let browser: Browser;
  let page: Page;
  let client: Holdfast;
  let served: Served | undefined;
  let prefix: string;
  const problems: string[] = [];

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'holdfast-chromium-'));
    browser = await puppeteer.launch({
      executablePath: CHROMIUM!,
      args: FLAGS,
      userDataDir: folder,
      defaultViewport: { width: 1280, height: 900 },
    });
    page = await browser.newPage();
    page.on('pageerror', (error) => problems.push(String(error)));
    page.on('console', (message) => {
      if (message.type() === 'error') problems.push(message.text());
    });
  }, 60_000);

  afterAll(async () => {
    await browser.close();
    rmSync(folder, { recursive: true, force: true });
  });

  beforeEach(() => {
    problems.length = 0;
    client = newClient({ lockWatchdogTimeout: 4_500, clientId: 'web' });
    prefix = uniqueName('browser');
  });

  afterEach(async () => {
    await page.goto('about:blank');
    await served?.close();
    await client.close();
    served = undefined;
    expect(problems).toEqual([]);
  });

  async function open({ of = client, mayForce = false, hash = '' } = {}): Promise<void> {
    served = await serve(of, { port: 0, prefix, mayForce });
    await page.goto(served.url + hash);
  }

  /** The value of an expression in the page. */
  const inPage = <T>(expression: string): Promise<T> => page.evaluate(expression) as Promise<T>;

  const found = (selector: string): string => `document.querySelector(${JSON.stringify(selector)})`;

  const text = (selector: string): Promise<string> => inPage(`${found(selector)}?.innerText ?? ''`);

  const count = (selector: string): Promise<number> =>
    inPage(`document.querySelectorAll(${JSON.stringify(selector)}).length`);

  async function expectText(
    selector: string,
    part: string | RegExp,
    timeout = 20_000,
  ): Promise<void> {
    await expect.poll(() => text(selector), { timeout }).toMatch(part);
  }

  it('shows a lock, its wait and its release as they happen', async () => {
    await open();
    await expectText('#shown', '0 of 0');
    const name = `${prefix}:a`;
    const hold = await client.getFairLock(name).acquire();
    await expectText('#rows', name);
    await expectText('#rows', hold.ownerId.split(':')[0]!);
    const waiting = nextEvent(client, 'waiting');
    const call = client.getFairLock(name).acquire();
    await waiting;
    await expectText('#rows', '1 in line');
    await expectText('#counts', '1 held, 1 waiting');
    await page.click('#rows a.row');
    await expectText('#one-name', `${name} (lock)`);
    await expectText('#one-body', /web-\S+-[0-9a-f]{12}:\d{16}\s+waits \d+ s/);
    await hold.release();
    const next = await call;
    await expectText('#one-body', next.ownerId);
    await expectText('#history', `released by ${hold.ownerId}`);
    await next.release();
    await expectText('#one-body', 'Nobody holds this lock.');
    expect(await inPage(`${found('#force')}.hidden`)).toBe(true);
    await page.keyboard.press('Escape');
    await expectText('#shown', '0 of 0');
    expect(await count('canvas')).toBe(2);
  });

  it('tells a lock that its client keeps from one that is held', async () => {
    const name = `${prefix}:a`;
    await open({ hash: `#${encodeURIComponent(name)}` });
    await expectText('#one-body', 'Nobody holds this lock.');
    await redis.hset(name, 'job-0123456789ab:1', '-1');
    await redis.pexpire(name, 120_000);
    await expectText('#one-body', /job-0123456789ab:1\s+kept.*perhaps not in use/);
    await expectText('#history', 'kept, perhaps idle, by job-0123456789ab:1');
    await page.keyboard.press('Escape');
    await expectText('#rows', /job-0123456789ab\s+kept/);
    await redis.hset(name, 'job-0123456789ab:1', '1');
    await expect.poll(() => text('#rows'), { timeout: 20_000 }).not.toContain('kept');
    await page.click('#rows a.row');
    await expectText('#history', 'held by job-0123456789ab:1');
    await redis.del(name);
  });

  it('has who holds and who waits above the charts, which begin with what was known before', async () => {
    const name = `${prefix}:a`;
    const since = String((Date.now() - 25_000) * 1_000);
    await redis.hset(name, `job-0123456789ab:${since}`, '1');
    await redis.pexpire(name, 120_000);
    const top = (selector: string): Promise<number> =>
      inPage(`${found(selector)}.getBoundingClientRect().top`);
    const drawn = async (): Promise<readonly number[][]> => inPage('charts[0].data');
    for (const [hash, selector] of [
      ['', '#rows a.row'],
      [`#${encodeURIComponent(name)}`, '#holders li'],
    ] as const) {
      await open({ hash });
      await expectText(selector, 'job-0123456789ab');
      expect(await top(selector)).toBeLessThan(await top('#chart-counts'));
      const [at, held] = await drawn();
      expect(at!.at(-1)! - at![0]!).toBeGreaterThanOrEqual(60);
      const [was, is] = [at!.at(-1)! - 31, at!.at(-1)! - 22]; // it is held for 25 s, and was opened a moment ago
      expect(held!.filter((_, index) => at![index]! < was)).not.toContain(1);
      expect(held!.filter((_, index) => at![index]! > is)).not.toContain(0);
      expect(at!.filter((each) => each > was && each < is).length).toBeGreaterThan(3);
      await page.goto('about:blank');
      await served?.close();
    }
    await redis.del(name);
  });

  it('tells a lease that is renewed from one that runs out, and marks a long hold', async () => {
    await open();
    await expectText('#shown', '0 of 0');
    await expectText('#none', 'Nobody holds or awaits a lock.');
    const watched = await client.getLock(`${prefix}:1`).acquire();
    const fixed = await client.getLock(`${prefix}:2`).acquire({ lease: 12_000 });
    const long = String((Date.now() - 400_000) * 1_000 + 500);
    await redis.hset(`${prefix}:3`, `job-0123456789ab:${long}`, '1');
    await redis.pexpire(`${prefix}:3`, 120_000);
    const row = (index: number): string => `#rows a.row:nth-of-type(${String(index)})`;
    await expectText(row(1), '↻');
    await expect.poll(() => count(`${row(2)} .lease.ends`), { timeout: 20_000 }).toBe(1);
    expect(await text(row(2))).not.toContain('↻');
    await expect.poll(() => count(`${row(1)} .lease.ends, ${row(3)} .lease.ends`)).toBe(0);
    expect(await count('#rows .age.long')).toBe(1);
    expect(await text(`${row(3)} .age`)).toBe('held 6 min');
    await page.click(row(2));
    await expectText('#holders', /lease left \d s, not renewed/);
    await page.goBack();
    await page.click(row(1));
    await expectText('#holders', /renewed \d s ago/);
    await watched.release();
    await fixed.release();
    await redis.del(`${prefix}:3`);
  });

  it('shows what else a client holds and waits for', async () => {
    await using other = newClient({ clientId: 'other' });
    const holds = [
      await client.getLock(`${prefix}:a`).acquire(),
      await client.getLock(`${prefix}:b`).acquire(),
      await other.getFairLock(`${prefix}:c`).acquire(),
      await other.getLock(`${prefix}:d`).acquire(),
    ];
    const waiting = nextEvent(client, 'waiting');
    const call = client.getFairLock(`${prefix}:c`).acquire();
    await waiting;
    await open({ hash: `#${encodeURIComponent(`${prefix}:a`)}` });
    await expectText('#holders', holds[0]!.ownerId);
    await page.focus('#holders a');
    await new Promise((resolve) => setTimeout(resolve, 2_500)); // it is drawn anew, and keeps its focus
    await page.keyboard.press('Enter');
    await expectText('#one-name', /^web-\S+-[0-9a-f]{12}$/);
    await expectText('#facts', 'holds 2 and waits in 1 lines');
    await expectText('#shown', '3 of 3');
    await expectText(
      '#rows',
      /:c\s+lock\s+other-\S+-[0-9a-f]{12}\s+held \d+ s\s+\d+ s.*\s+waits \d s/,
    );
    expect(await text('#rows')).not.toContain(`${prefix}:d`);
    await page.keyboard.press('Escape');
    await expectText('#shown', '4 of 4');
    for (const hold of holds) await hold.release();
    await (await call).release();
  });

  it('fits the screen of a phone', async () => {
    const name = `${prefix}:eu-west-1:customer:8d1f0c2e-6c1e-4a8e-9a1b-2f6f0f6f7a11:invoice:4711`;
    await redis.hset(
      name,
      `checkout-7d9f8b6c5d-x2x4z-1-0123456789ab:${String(Date.now() * 1_000)}`,
      '1',
    );
    await redis.pexpire(name, 120_000);
    await page.setViewport({ width: 390, height: 844 });
    try {
      await open();
      await expectText('#rows', ':4711');
      const cut =
        '[...document.querySelectorAll("#rows a.row > span")].filter((part) => part.scrollWidth > part.clientWidth).length';
      expect(await inPage(cut)).toBe(0);
      await page.click('#rows a.row');
      await expectText('#one-name', name);
      expect(await inPage('document.documentElement.scrollWidth')).toBe(390);
    } finally {
      await page.setViewport({ width: 1280, height: 900 });
    }
    await redis.del(name);
  });

  it('shows what was released, kept, exported or handed over whole, and does not count what was released as held', async () => {
    const job = (ageMs: number): string =>
      `job-0123456789ab:${String((Date.now() - ageMs) * 1_000 + 500)}`;
    const end = 'x'.repeat(80);
    for (const [name, count] of [
      ['handed', '01'],
      ['kept', '-1'],
      ['released', '-2'],
      [`exported-${end}`, '-3'],
    ]) {
      await redis.hset(`${prefix}:${name!}`, job(40 * 60_000), count!);
      await redis.pexpire(`${prefix}:${name!}`, 120_000);
    }
    try {
      for (const width of [1280, 390]) {
        await page.setViewport({ width, height: 844 });
        await page.goto('about:blank');
        await served?.close();
        await open({ mayForce: true });
        await expectText('#shown', '4 of 4');
        await expectText('#counts', '3 held, 0 waiting');
        expect(
          await inPage('[...document.querySelectorAll("a.row .age")].map((e) => e.innerText)'),
        ).toEqual(['exported', 'asked 40 min ago', 'kept', 'released']);
        const cut =
          '[...document.querySelectorAll("#rows a.row > span:not(.name)")].filter((part) => part.scrollWidth > part.clientWidth).map((part) => part.innerText)';
        expect(await inPage(cut), `at ${String(width)}`).toEqual([]);
        await page.click('#rows a.row');
        await expectText('#charts-of', end);
        await page.click('#force-button');
        expect(await inPage('document.documentElement.scrollWidth')).toBe(width);
        await page.goto(`${served!.url}#${encodeURIComponent(`${prefix}:released`)}`);
        await expectText('#holders', /released, asked 40 min ago, stays taken for \d+ s$/);
        await page.click('#force-button');
        await expectText('#force-text', 'Nobody works any more');
      }
    } finally {
      await page.setViewport({ width: 1280, height: 900 });
    }
    for (const name of ['handed', 'kept', 'released', `exported-${end}`])
      await redis.del(`${prefix}:${name}`);
  });

  it('stays usable with 5,000 locks', async () => {
    const names = Array.from({ length: 5_000 }, (_, index) => `${prefix}:${String(index)}`);
    const pipeline = redis.pipeline();
    for (const name of names)
      pipeline.hset(name, 'somebody-0123456789ab:1', '1').pexpire(name, 120_000);
    await pipeline.exec();
    await open();
    await expectText('#shown', '5000 of 5000');
    // Only what can be seen is in the document.
    expect(await count('#rows a.row')).toBeLessThan(60);
    expect(await count('*')).toBeLessThan(600);
    await inPage(`${found('#rows')}.scrollTop = 1e9`);
    await expectText('#rows', `${prefix}:999`);
    await page.keyboard.press('/');
    await page.keyboard.type(':4321');
    await expectText('#shown', '1 of 5000');
    await expectText('#rows', `${prefix}:4321`);
    await redis.del(...names);
    await expectText('#shown', '0 of 0', 50_000); // a look at so many that is under way ends first
  }, 120_000);

  it('is used by keyboard', async () => {
    const holds = await Promise.all(
      ['a', 'b', 'c'].map((each) => client.getLock(`${prefix}:${each}`).acquire()),
    );
    await open();
    await expectText('#shown', '3 of 3');
    await page.focus('#rows a.row');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('ArrowUp');
    await page.keyboard.press('Enter');
    await expectText('#one-name', `${prefix}:b (lock)`);
    await page.keyboard.press('Escape');
    const focused = (): Promise<unknown> => inPage('document.activeElement?.dataset.name');
    await expect.poll(focused).toBe(`${prefix}:b`);
    for (const hold of holds) await hold.release();
  });

  it('keeps the focus in the list when the lock that has it is released', async () => {
    const holds = await Promise.all(
      ['a', 'b', 'c'].map((each) => client.getLock(`${prefix}:${each}`).acquire()),
    );
    await open();
    await expectText('#shown', '3 of 3');
    await page.focus('#rows a.row');
    await page.keyboard.press('ArrowDown');
    const focused = (): Promise<unknown> => inPage('document.activeElement?.dataset.name');
    expect(await focused()).toBe(`${prefix}:b`);
    await holds[1]!.release();
    await expectText('#shown', '2 of 2');
    expect(await focused()).toBe(`${prefix}:c`);
    await holds[0]!.release();
    await expectText('#shown', '1 of 1');
    expect(await focused()).toBe(`${prefix}:c`);
    await holds[2]!.release();
    await expectText('#shown', '0 of 0');
  });

  it('shows a lock beyond the limit, too, and goes on after an app that answered 502', async () => {
    const names = ['a', 'b'].map((each) => `${prefix}:${each}`);
    const holds = await Promise.all(names.map((name) => client.getLock(name).acquire()));
    let isDown = false;
    let handler = ui(client, { prefix, limit: 1 });
    const server = createServer((request, response) => {
      if (isDown) response.writeHead(502).end();
      else handler(request, response);
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/`;
    await page.goto(url);
    await expectText('#shown', '1 of 1 or more');
    for (const [index, name] of names.entries()) {
      await page.goto(`${url}#${encodeURIComponent(name)}`);
      await expectText('#one-body', holds[index]!.ownerId);
    }
    isDown = true;
    handler.close();
    await expectText('#banner', 'no connection to the app');
    await expect.poll(() => problems.join(), { timeout: 20_000 }).toContain('502');
    problems.length = 0;
    handler = ui(client, { prefix });
    isDown = false;
    await expect.poll(() => inPage(`${found('#banner')}.hidden`), { timeout: 20_000 }).toBe(true);
    problems.length = 0; // further attempts, perhaps
    await page.keyboard.press('Escape');
    await expectText('#shown', '2 of 2');
    for (const hold of holds) await hold.release();
    await page.goto('about:blank');
    handler.close();
    server.close();
    server.closeAllConnections();
  }, 60_000);

  it('frees a lock, after asking, if that is allowed', async () => {
    const name = `${prefix}:a`;
    const hold = await client.getLock(name).acquire();
    await open({ mayForce: true, hash: `#${encodeURIComponent(name)}` });
    await expectText('#one-body', hold.ownerId);
    await page.click('#force-button');
    await expectText('#force-text', `Free “${name}”? It is held by ${hold.ownerId}`);
    // The harmless one is first, and has the focus; the other is red.
    expect(
      await inPage(`[...${found('#force-ask')}.querySelectorAll('button')].map(({ id }) => id)`),
    ).toEqual(['force-no', 'force-yes']);
    expect(await inPage('document.activeElement.id')).toBe('force-no');
    expect(await inPage(`getComputedStyle(${found('#force-yes')}).backgroundColor`)).toBe(
      'rgb(198, 40, 40)',
    );
    await page.keyboard.press('Escape');
    expect(await inPage(`${found('#force-ask')}.hidden`)).toBe(true);
    expect(hold.signal.aborted).toBe(false);
    await page.click('#force-button');
    await page.click('#force-yes');
    await expectText('#force-said', 'It was freed.');
    expect(hold.signal.reason).toMatchObject({ lossReason: 'forced' });
    await expectText('#one-body', 'Nobody holds this lock.');
  });

  it('shows names as text, whatever is in them', async () => {
    const name = `${prefix}:<img src=x onerror="document.title='run'">&amp;%`;
    const hold = await client.getLock(name).acquire();
    await open();
    await expectText('#rows', '<img src=x');
    await page.click('#rows a.row');
    await expect.poll(() => text('#one-name')).toBe(`${name} (lock)`);
    expect(await page.title()).toBe('holdfast: locks');
    expect(await count('main img')).toBe(0);
    await hold.release();
  });

  it('is dark or light as the system, and as the button says', async () => {
    await open();
    const scheme = (): Promise<string> =>
      inPage('getComputedStyle(document.documentElement).colorScheme');
    for (const value of ['dark', 'light']) {
      await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value }]);
      expect(await scheme()).toBe(value);
    }
    await page.click('#theme');
    expect(await scheme()).toBe('dark');
    await inPage('localStorage.clear()');
  });

  it('says that Redis is gone, and goes on by itself when it is back', async () => {
    expectOutages();
    await using server = await startRedis();
    await using own = await connectedClient({ redis: server.url, commandTimeout: 500 });
    await open({ of: own });
    await expectText('#shown', '0 of 0');
    await server.kill();
    await expectText('#banner', 'What is shown is out of date');
    await server.start();
    const hold = await own.getLock(`${prefix}:a`).acquire();
    await expectText('#rows', `${prefix}:a`);
    expect(await inPage(`${found('#banner')}.hidden`)).toBe(true);
    await hold.release();
    expect(inject('redisUrl')).not.toBe(server.url);
  });
});
