// Shows a scene while it is played: in place in a terminal that can do it, else as plain lines.

import { LiveView } from './live-view.js';
import { PlainView } from './plain-view.js';
import type { ScenePlan, SceneState } from './scene.js';
import { isFullScreen } from './screen.js';

/** Disposing of it leaves the terminal as it was. */
export interface View<State> extends Disposable {
  begin(plan: ScenePlan): void;
  update(state: State): void;
  /** Something that happens once. */
  tell(event: string): void;
  end(state: State): void;
}

/** How a state is shown: as a picture of some lines, or in one line of plain text. */
interface Pictures<State> {
  readonly frame: (state: State) => string[];
  readonly summary: (state: State) => string;
}

/** NO_COLOR and pipes get plain lines. */
export function createView<State extends SceneState>({
  frame,
  summary,
}: Pictures<State>): View<State> {
  const out = process.stdout;
  return isFullScreen(out) ? new LiveView(out, frame) : new PlainView(summary);
}
