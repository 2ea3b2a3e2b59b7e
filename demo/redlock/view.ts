// Which view of the masters the terminal can show.

import { isFullScreen } from '../screen.js';
import type { View } from '../view.js';
import { LiveView } from './live-view.js';
import { PlainView } from './plain-view.js';
import type { RunPlan, RunState } from './run.js';

/** Live in a terminal that can do it; NO_COLOR and pipes get plain lines. */
export function createView(): View<RunPlan, RunState> {
  return isFullScreen(process.stdout) ? new LiveView(process.stdout) : new PlainView();
}
