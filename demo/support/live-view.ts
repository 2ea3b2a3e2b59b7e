// A scene as a picture that is drawn over itself ten times a second, with what happened below it.

import type { WriteStream } from 'node:tty';
import { styleText } from 'node:util';
import { seconds } from './figures.js';
import type { ScenePlan, SceneState } from './scene.js';
import { FRAME_HEIGHT, FRAME_WIDTH, Screen } from './screen.js';
import type { View } from './view.js';

export class LiveView<State extends SceneState> implements View<State> {
  readonly #screen: Screen;
  readonly #frame: (state: State) => string[];
  #events: string[] = [];

  constructor(out: WriteStream, frame: (state: State) => string[]) {
    this.#screen = new Screen(out);
    this.#frame = frame;
  }

  begin({ title, explanation }: ScenePlan): void {
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
      ...this.#events.slice(-room), // the latest stay
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

/** In lines that fit, the further ones indented: what is drawn over must not be broken by the terminal. */
function wrapped(event: string): string[] {
  const lines = [''];
  for (const word of event.split(' ')) {
    const line = lines.at(-1)!;
    if (line.length + 1 + word.length > FRAME_WIDTH) lines.push(`  ${word}`);
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`;
  }
  return lines;
}
