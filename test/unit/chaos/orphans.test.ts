// Unwanted owners on a server: which ones the checker of the fault campaign reports.
import { expect, it } from 'vitest';
import { held, violationsIn, type LookMade, type Noted } from '../../support/checked-history.js';

const A = 'w0.0.c0k0.0';
const OWNER = 'w0.0.c0.0-host-1-4711-0123456789ab:1';
const CLIENT = 'w0.0.c0.0';

/** A section of that client that was inside until 200, and knows since 140 that it has nothing any more. */
function inside(owner = OWNER): Noted[] {
  return held(A, 100, 130).map(([at, note]): Noted => {
    if (note.what === 'entered') return [at, { ...note, owner }];
    return [note.what === 'leaving' ? 2_000 : note.what === 'left' ? 2_001 : at, note];
  });
}

function closing(until = 150): Noted[] {
  return [
    [140, { what: 'closing', client: CLIENT }],
    [until, { what: 'closed', client: CLIENT }],
  ];
}

/** The server's periodic answers about the owner, until then. */
function standing(until: number, owner = OWNER): LookMade[] {
  return [110, 145, until].map((from) => ({ from, until: from + 1, owner }));
}

/** How long it is reported to have been there, and why that is too long. */
function leftBehind(notes: readonly Noted[], more: Parameters<typeof violationsIn>[1]): string[] {
  const plan = { commandTimeoutMs: 500, ...more?.plan };
  return violationsIn(notes, { ...more, plan })
    .filter(({ rule }) => rule === 'left behind')
    .map(({ message }) => message.replace(/^.* stood in "x" for /, ''));
}

it('an owner that stays for long although no call wants it is reported', () => {
  const notes = held(A, 100, 130);
  const found = '1000 ms, and nobody of that client held it or called for it';
  expect(leftBehind(notes, { looks: standing(1_132) })).toEqual([found]);
  expect(leftBehind(notes, { looks: standing(1_131) })).toEqual([]);
});

it('an owner that is there when its client was closed is reported, even while its caller is still inside', () => {
  const looks = standing(350);
  expect(leftBehind(inside(), { looks })).toEqual([]);
  const notes = [...inside(), ...closing()];
  expect(leftBehind(notes, { looks })).toEqual(['200 ms, and its client was closed']);
  expect(leftBehind(notes, { looks: standing(349) })).toEqual([]);
  // Something blocked close(), or it took all of its time.
  const faults = [{ nemesis: 'cut connections', from: 142, until: 143, clients: [0] }];
  expect(leftBehind(notes, { looks, faults })).toEqual([]);
  const gaveUp = [...inside(), ...closing(640)];
  expect(leftBehind(gaveUp, { looks: standing(1_000) })).toEqual([]);
});
