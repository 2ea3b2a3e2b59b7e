// Shows a scene while it is played: in place if the terminal can do that, otherwise as plain lines.
import type { WriteStream } from 'node:tty';
import { styleText } from 'node:util';
import { seconds } from './figures.js';

/** Printed before a scene. */
interface Announced {
  readonly title: string;
  /** What the viewer sees, in a line or two. */
  readonly explanation: string;
}

/** What a view itself needs of a state: the rest is for its frames. */
interface Timed {
  readonly plan: { readonly durationMs: number };
  readonly elapsedMs: number;
}

/** Disposing of it leaves the terminal as it was. */
export interface View<State> extends Disposable {
  begin(plan: Announced): void;
  update(state: State): void;
  /** Shows an event. */
  tell(event: string): void;
  end(state: State): void;
}

/** How a state is shown: as a frame of some lines, or in one line of plain text. */
interface Pictures<State> {
  readonly frame: (state: State) => string[];
  readonly summary: (state: State) => string;
}

/** NO_COLOR and pipes get plain lines. */
export function createView<State extends Timed>({ frame, summary }: Pictures<State>): View<State> {
  const out = process.stdout;
  return isFullScreen(out) ? new LiveView(out, frame) : new PlainView(summary);
}

// A scene as a frame that is redrawn ten times a second, with the events below it.

class LiveView<State extends Timed> implements View<State> {
  readonly #screen: Screen;
  readonly #frame: (state: State) => string[];
  #events: string[] = [];

  constructor(out: WriteStream, frame: (state: State) => string[]) {
    this.#screen = new Screen(out);
    this.#frame = frame;
  }

  begin({ title, explanation }: Announced): void {
    this.#events = [];
    this.#screen.begin(title, explanation);
  }

  tell(event: string): void {
    this.#events.push(...wrapped(event));
  }

  update(state: State): void {
    const lines = this.#frame(state);
    const room = FRAME_HEIGHT - lines.length - 1;
    const leftMs = Math.max(state.plan.durationMs - state.elapsedMs, 0);
    this.#screen.draw([
      ...lines,
      ...this.#events.slice(-room), // only the latest remain
      styleText('dim', `${seconds(leftMs, 0)} left`),
    ]);
  }

  end(state: State): void {
    this.#screen.draw([...this.#frame(state), ...this.#events]);
  }

  [Symbol.dispose](): void {
    this.#screen.close();
  }
}

/** Wraps the event, with an indent: the terminal must not break lines that are redrawn. */
function wrapped(event: string): string[] {
  const lines = [''];
  for (const word of event.split(' ')) {
    const line = lines.at(-1)!;
    if (line.length + 1 + word.length > FRAME_WIDTH) lines.push(`  ${word}`);
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`;
  }
  return lines;
}

// A scene as plain text, a line every second: for pipes, logs and NO_COLOR.

const INTERVAL_MS = 1_000;

class PlainView<State extends Timed> implements View<State> {
  readonly #summary: (state: State) => string;
  #nextLineMs = INTERVAL_MS;

  constructor(summary: (state: State) => string) {
    this.#summary = summary;
  }

  begin({ title, explanation }: Announced): void {
    this.#nextLineMs = INTERVAL_MS;
    console.log(`\n${title}\n${explanation}\n`);
  }

  update(state: State): void {
    if (state.elapsedMs < this.#nextLineMs) return;
    this.#nextLineMs += INTERVAL_MS;
    this.#print(state);
  }

  tell(event: string): void {
    console.log(`        ${event}`);
  }

  end(state: State): void {
    this.#print(state);
  }

  [Symbol.dispose](): void {
    // Nothing to undo.
  }

  #print(state: State): void {
    console.log(`  ${seconds(state.elapsedMs, 0).padStart(4)}  ${this.#summary(state)}`);
  }
}

// A part of the terminal that is redrawn in place.

const HIDE_CURSOR = '\x1b[?25l';
const SHOW_CURSOR = '\x1b[?25h';
const CLEAR_TO_LINE_END = '\x1b[K';
const CLEAR_TO_SCREEN_END = '\x1b[J';

/** The largest frame: lines that do not fit the terminal cannot be redrawn. */
const FRAME_HEIGHT = 20;
const FRAME_WIDTH = 79;

/** Whether this terminal can redraw, and plain lines were not requested. */
function isFullScreen(out: WriteStream): boolean {
  const { NO_COLOR: noColor, TERM: term } = process.env;
  const isLargeEnough = out.rows > FRAME_HEIGHT && out.columns > FRAME_WIDTH;
  return out.isTTY && !noColor && term !== 'dumb' && isLargeEnough;
}

class Screen {
  readonly #out: WriteStream;
  /** How many lines of the last frame are above the cursor. */
  #height = 0;

  constructor(out: WriteStream) {
    this.#out = out;
    out.write(HIDE_CURSOR);
  }

  /** Keeps the present output, and begins below it. */
  begin(title: string, explanation: string): void {
    this.#height = 0;
    this.#out.write(`\n${styleText('bold', title)}\n${explanation}\n\n`);
  }

  draw(lines: readonly string[]): void {
    const up = this.#height > 0 ? `\x1b[${this.#height}A\r` : '';
    const body = lines.map((line) => `${line}${CLEAR_TO_LINE_END}\n`).join('');
    this.#out.write(up + body + CLEAR_TO_SCREEN_END);
    this.#height = lines.length;
  }

  /** Restores the terminal. */
  close(): void {
    this.#out.write(SHOW_CURSOR);
  }
}
