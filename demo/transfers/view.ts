// Which view of a phase the terminal can show.

import { isFullScreen } from '../screen.js';
import type { View } from '../view.js';
import { LiveView } from './live-view.js';
import type { PhasePlan, PhaseState } from './phase.js';
import { PlainView } from './plain-view.js';

/** Live in a terminal that can do it; NO_COLOR and pipes get plain lines. */
export function createView(): View<PhasePlan, PhaseState> {
  return isFullScreen(process.stdout) ? new LiveView(process.stdout) : new PlainView();
}
