// A growth as curves, both axes logarithmic.

import type { Growth } from './growth.js';
import { axis, svg, titled } from './svg.js';
import type { Theme } from './theme.js';

const HEIGHT = 380;

export function drawGrowth({ title, xLabel, yLabel, curves }: Growth, theme: Theme): string {
  return svg(HEIGHT, theme, {
    title: titled(title, `${yLabel}, logarithmic`, theme),
    legend: { bottom: 0, itemGap: 32, textStyle: { color: theme.text } },
    grid: {
      left: 8,
      right: 60,
      top: 64,
      bottom: 48,
      outerBoundsMode: 'same',
      outerBoundsContain: 'axisLabel',
    },
    xAxis: axis(theme, { type: 'log', name: xLabel, nameTextStyle: { color: theme.text } }),
    yAxis: axis(theme, { type: 'log' }),
    series: curves.map(({ label, points }) => ({
      type: 'line',
      name: label,
      symbolSize: 7,
      // What is nothing has no place on a logarithmic axis.
      data: points.filter(([, value]) => value > 0),
    })),
  });
}
