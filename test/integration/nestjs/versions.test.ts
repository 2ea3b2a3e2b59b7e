// Each version of NestJS: an app in several processes, with requests, schedules, and an end.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, it } from 'vitest';
import { type Child, startChild } from '../../support/child.js';
import { uniqueName } from '../../support/unique-name.js';

const NEST_11 = 'test/support/nest-11';
const hooks = new URL('../../support/nest-11/hooks.mjs', import.meta.url).href;

beforeAll(() => {
  if (!existsSync(`${NEST_11}/node_modules`))
    throw new Error(`NestJS 11 is not installed: npm test does that, or npm ci in ${NEST_11}`);
});

/** An app of this version of NestJS, and the address where it listens. */
async function start(version: number, name: string): Promise<{ app: Child; url: string }> {
  const options = version === 11 ? { NODE_OPTIONS: `--import ${hooks}` } : {};
  const app = startChild('nest-app.ts', { HOLDFAST_TEST_NAME: name, ...options });
  const { url, nest } = await app.next('listening', 60_000);
  expect(String(nest).includes('nest-11')).toBe(version === 11);
  return { app, url: String(url) };
}

async function get(url: string): Promise<unknown> {
  return await (await fetch(url, { headers: { connection: 'close' } })).json();
}

describe.each([11, 12])('NestJS %i', (version) => {
  it('has apps in two processes that exclude each other, and end their requests before they close', async () => {
    const name = `${uniqueName('nest')}:`;
    const started = await Promise.all([start(version, name), start(version, name)]);
    await using one = started[0].app;
    await using other = started[1].app;
    const urls = started.map(({ url }) => `${url}/orders/7?role=`);
    const right = { id: 7, role: 'clerk', inside: 1 };
    const asked = Array.from({ length: 12 }, (_, i) => get(`${urls[i % 2]!}clerk`));
    expect(await Promise.all(asked)).toEqual(Array(12).fill(right));
    expect(await get(`${urls[0]!}guest`)).toMatchObject({ statusCode: 403 });
    for (const method of ['above', 'below'])
      expect(await Promise.any([one.next(method), other.next(method)])).toMatchObject({
        inside: 1,
      });

    const answer = get(`${urls[0]!}clerk&ms=500`);
    await one.next('last');
    const ended = one.kill('SIGTERM');
    expect(await answer).toEqual(right);
    await ended;
    expect(await get(`${urls[1]!}clerk`)).toEqual(right);
    await other.kill('SIGTERM');
    for (const app of [one, other]) {
      expect(await app.next('closed')).toMatchObject({ status: 'closed' });
      expect(await app.exited()).toEqual({ code: 0, signal: null });
    }
    expect(one.output + other.output).not.toContain('ERROR');
  }, 120_000);
});

it('NestJS 11 has the types that holdfast/nestjs needs', async () => {
  const tsc = ['node_modules/typescript/bin/tsc', '--noEmit', '-p', NEST_11];
  await promisify(execFile)(process.execPath, tsc);
}, 120_000);
