// Shows a phase while it runs: in place in a terminal, else as plain lines.

import { isFullScreen, LiveView } from './live-view.js';
import type { PhasePlan, PhaseState } from './phase.js';
import { PlainView } from './plain-view.js';

export interface View {
  begin(plan: PhasePlan): void;
  update(state: PhaseState): void;
  /** Something that happens once. */
  tell(event: string): void;
  end(state: PhaseState): void;
  /** Leaves the terminal as it was, whatever happened. */
  close(): void;
}

/** Live in a terminal that can do it; NO_COLOR and pipes get plain lines. */
export function createView(): View {
  return isFullScreen(process.stdout) ? new LiveView(process.stdout) : new PlainView();
}
