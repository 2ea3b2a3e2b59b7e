// The verb watch: a live screen of the locks, or without a terminal the changes as lines.

import { UnavailableError } from '../api/errors.js';
import type { Inspection } from '../api/inspection.js';
import { durationOf, type Verb, withClient } from './command.js';
import { EXIT, told } from './failure.js';
import { whenEnded } from './ending.js';
import {
  changesBetween,
  limitOf,
  LIST_OPTIONS,
  listed,
  listing,
  orderOf,
  PREFIX,
  shortOwner,
} from './look.js';
import { cut, type Line, print, printJson, shown, visible, warn } from './terminal.js';

const INTERVAL_MS = 1_000;
/** The longest that a timer can wait. */
const LONGEST_INTERVAL_MS = 2 ** 31 - 1;

/** How many of the last changes the screen has room for. */
const MOST_CHANGES = 10;

export const watch: Verb = {
  usage: 'watch [PREFIX]',
  summary: 'a live screen: who holds, who waits, what has changed; q ends it',
  details:
    'It looks every --interval; what changes in between and changes back is not seen. The screen names the host and the process of an\nowner; show has the whole owner. Without a terminal it prints each change as a line.',
  options: {
    ...LIST_OPTIONS,
    interval: { type: 'string', help: 'how often it looks, such as 500ms (1s)' },
  },
  positionals: PREFIX,
  run: ({ values, positionals }) =>
    withClient(values, async (holdfast) => {
      const limit = limitOf(values);
      const intervalMs = Math.min(
        durationOf(values, 'interval', 100) ?? INTERVAL_MS,
        LONGEST_INTERVAL_MS,
      );
      const order = orderOf(values);
      const end = whenEnded(true);
      const screen = process.stdout.isTTY && !values['json'] ? new Screen() : undefined;
      const changes: string[] = [];
      let before: ReadonlyMap<string, Inspection> | undefined;
      let trouble = '';
      const tell = (line: string, warns = false): void => {
        const said = `${new Date().toISOString().slice(11, 19)}  ${line}`;
        changes.unshift(said);
        changes.splice(MOST_CHANGES);
        if (screen) return;
        if (warns) warn(said);
        else if (!values['json']) print(said);
      };
      const draw = (): void => {
        if (!screen || !before) return;
        const locks = [...before.values()].sort(order);
        screen.show((columns, rows) => {
          const time = new Date().toISOString().slice(11, 19);
          const head = `${time}  ${holdfast.status}  ${String(locks.length)} locks  (q ends)`;
          return screenOf(head, locks, changes, columns, rows);
        });
      };
      const look = async (): Promise<void> => {
        try {
          const now = new Map<string, Inspection>();
          for await (const lock of listed(holdfast, values, positionals[0])) {
            now.set(lock.name, lock);
            if (now.size === limit) break;
          }
          // What was cut off is not known, so a lock that is not listed may be held all the same.
          const known = before && Math.max(before.size, now.size) < limit ? before : now;
          for (const { lockName, how, ownerId } of changesBetween(known, now)) {
            tell(`${lockName}: ${how} ${screen ? shortOwner(ownerId) : ownerId}`);
            const change = `${lockName}: ${how} ${ownerId}`;
            if (values['json']) printJson({ at: new Date(), lockName, change });
          }
          before = now;
          trouble = '';
        } catch (error) {
          if (end.signal.aborted) return;
          // During a failover an operator needs the screen most.
          if (!before || !(error instanceof UnavailableError)) throw error;
          const { line } = told(error);
          if (line !== trouble) tell(line, true);
          trouble = line;
        }
        draw();
      };
      process.stdout.on('resize', draw);
      try {
        while (!end.signal.aborted) {
          await end.unlessEnded(look());
          await end.sleep(intervalMs);
        }
      } finally {
        process.stdout.off('resize', draw);
        screen?.leave();
        end.done();
      }
      return EXIT.ok;
    }),
};

/** What the screen shows: locks first, then as many changes as there is room for. No line is longer than the screen is wide. */
export function screenOf(
  head: string,
  locks: readonly Inspection[],
  changes: readonly string[],
  columns: number,
  rows: number,
): Line[] {
  const [titles = '', ...lines] = listing(locks, columns);
  const room = Math.max(rows - 3, 1); // without the head, an empty line and the titles
  const least = Math.floor(room / 3) - 1;
  const changeCount = Math.max(
    Math.min(changes.length, Math.max(room - lines.length - 1, least)),
    0,
  );
  const lockRows = room - (changeCount > 0 ? changeCount + 1 : 0);
  const isCut = lines.length > lockRows;
  const shownCount = isCut ? lockRows - 1 : lines.length;
  const said = changes.slice(0, changeCount).map((line) => cut(visible(line), columns));
  return [
    cut(head, columns),
    '',
    titles,
    ...lines.slice(0, shownCount),
    ...(isCut ? [cut(`… and ${String(lines.length - shownCount)} more`, columns)] : []),
    ...(changeCount > 0 ? ['', ...said] : []),
  ].slice(0, rows);
}

// The alternate screen of a terminal, without cursor, and without wrapping: a terminal may find a character wider than we do.

const ENTER = '\u001b[?1049h\u001b[?25l\u001b[?7l';
const LEAVE = '\u001b[?7h\u001b[?25h\u001b[?1049l';

class Screen {
  #isEntered = false;

  /** `lines`: at most so many columns, and rows. */
  show(lines: (columns: number, rows: number) => readonly Line[]): void {
    const { stdout } = process;
    if (!this.#isEntered) {
      this.#isEntered = true;
      // By whatever error the process ends; and before that error is written, or it would be lost with the screen.
      process.once('exit', this.leave);
      process.prependOnceListener('uncaughtException', this.leave);
      stdout.write(ENTER);
    }
    // A terminal may not say how large it is.
    const drawn = lines(stdout.columns || 80, stdout.rows || 24).map(shown);
    stdout.write(`\u001b[H${drawn.map((line) => `${line}\u001b[K`).join('\r\n')}\u001b[J`);
  }

  readonly leave = (): void => {
    if (!this.#isEntered) return;
    this.#isEntered = false;
    process.off('exit', this.leave);
    process.off('uncaughtException', this.leave);
    process.stdout.write(LEAVE);
  };
}
