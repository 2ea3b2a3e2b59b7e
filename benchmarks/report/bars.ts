// A case as bars: the ratio of each contender to the floor, or its figure where there is no floor; the whiskers hold the middle
// half of the rounds.

import type { CustomSeriesRenderItem } from 'echarts';
import { spread, type Spread } from '../support/statistics.js';
import { ratioToFloor, type Case } from './case.js';
import { axis, svg, titled } from './svg.js';
import type { Theme } from './theme.js';

const BAR_HEIGHT = 26;
const FRAME_HEIGHT = 110;
/** From this ratio of the longest to the shortest bar on, the axis is logarithmic. */
const WIDE = 30;

export function drawBars(one: Case, theme: Theme): string {
  const [metric] = one.metrics;
  const bars = one.series.map(({ id, label, values }) => {
    const isRatio = one.floor !== undefined && metric!.isRatio === true;
    const figure = isRatio ? ratioToFloor(one, id, metric!.key) : spread(values[metric!.key] ?? []);
    return { label, figure, color: colorOf(id, one.floor, theme) };
  });
  const medians = bars.map(({ figure }) => figure.median).filter((value) => value > 0);
  const isWide = Math.max(...medians) / Math.min(...medians) > WIDE;
  const floor = one.series.find(({ id }) => id === one.floor)?.label;
  const unit =
    floor !== undefined && metric!.isRatio ? `${metric!.label}, x ${floor}` : metric!.label;
  return svg(FRAME_HEIGHT + bars.length * BAR_HEIGHT, theme, {
    title: titled(one.title, isWide ? `${unit} (logarithmic)` : unit, theme),
    grid: { left: 220, right: 70, top: 64, bottom: 32, outerBoundsMode: 'none' },
    xAxis: axis(theme, isWide ? { type: 'log', min: decadeBelow(Math.min(...medians)) } : {}),
    yAxis: [bars.map(({ label }) => label), bars.map(({ figure }) => shown(figure.median))].map(
      (data) => axis(theme, { type: 'category', inverse: true, data, axisTick: { show: false } }),
    ),
    series: [
      {
        type: 'bar',
        barWidth: '62%',
        data: bars.map(({ figure, color }) => ({ value: figure.median, itemStyle: { color } })),
      },
      {
        type: 'custom',
        renderItem: whisker(theme),
        data: bars.map(({ figure: { lower, upper } }, index) => [index, lower, upper]),
      },
    ],
  });
}

/** Where a logarithmic axis begins, so that even the shortest bar is one. */
function decadeBelow(value: number): number {
  return 10 ** (Math.ceil(Math.log10(value)) - 1);
}

function colorOf(id: string, floor: string | undefined, theme: Theme): string {
  if (id === floor) return theme.floor;
  return id.startsWith('holdfast') ? theme.ours : theme.others;
}

function whisker(theme: Theme): CustomSeriesRenderItem {
  return (_, api) => {
    const [left, right] = [1, 2].map((end) => api.coord([api.value(end), api.value(0)]));
    return {
      type: 'line',
      shape: { x1: left![0]!, y1: left![1]!, x2: right![0]!, y2: right![1]! },
      style: { stroke: theme.text, lineWidth: 1.5 },
    };
  };
}

function shown(value: Spread['median']): string {
  return value >= 100 ? Math.round(value).toLocaleString('en') : value.toPrecision(3);
}
