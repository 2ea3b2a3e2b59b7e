// A scene as plain text, a line every second: for pipes, logs and NO_COLOR.

import { seconds } from './figures.js';
import type { ScenePlan, SceneState } from './scene.js';
import type { View } from './view.js';

const INTERVAL_MS = 1_000;

export class PlainView<State extends SceneState> implements View<State> {
  readonly #summary: (state: State) => string;
  #nextLineMs = INTERVAL_MS;

  constructor(summary: (state: State) => string) {
    this.#summary = summary;
  }

  begin({ title, explanation }: ScenePlan): void {
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
