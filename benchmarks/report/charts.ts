// Charts as SVG, without a browser: a case as bars, and a growth as curves.
import type { CustomSeriesRenderItem } from 'echarts';
import { BarChart, CustomChart, LineChart } from 'echarts/charts';
import { GridComponent, LegendComponent, TitleComponent } from 'echarts/components';
import { init, use, type EChartsCoreOption } from 'echarts/core';
import { SVGRenderer } from 'echarts/renderers';
import { spread, type Spread } from '../support/figures.js';
import { ratioToFloor, type Case } from './case.js';

const BAR_HEIGHT = 26;
const FRAME_HEIGHT = 110;
/** From this ratio of the longest to the shortest bar, the axis is logarithmic. */
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

/** Where a logarithmic axis begins, so that even the shortest bar is visible. */
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

// A growth as curves, both axes logarithmic.

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
      // Zero has no place on a logarithmic axis.
      data: points.filter(([, value]) => value > 0),
    })),
  });
}

// A curve: how a figure grows with the size of the task.

export interface Growth {
  readonly id: string;
  readonly title: string;
  readonly xLabel: string;
  readonly yLabel: string;
  readonly curves: readonly {
    readonly label: string;
    /** Size and figure. */
    readonly points: readonly (readonly [number, number])[];
  }[];
}

// Renders a chart as SVG, without a browser.

use([BarChart, CustomChart, LineChart]);
use([GridComponent, LegendComponent, TitleComponent, SVGRenderer]);

const WIDTH = 760;

function svg(height: number, theme: Theme, options: EChartsCoreOption): string {
  const chart = init(null, null, { renderer: 'svg', ssr: true, width: WIDTH, height });
  try {
    chart.setOption({
      animation: false,
      color: theme.palette,
      textStyle: { fontFamily: 'system-ui, sans-serif', color: theme.text },
      ...options,
    });
    return chart.renderToSVGString();
  } finally {
    chart.dispose();
  }
}

function titled(text: string, subtext: string, { text: color }: Theme): object {
  const style = { color, fontFamily: 'system-ui, sans-serif' };
  return {
    text,
    subtext,
    textStyle: { ...style, fontSize: 15, fontWeight: 600 },
    subtextStyle: { ...style, fontSize: 12 },
  };
}

function axis({ text, line }: Theme, more: object): object {
  return {
    axisLabel: { color: text },
    axisLine: { lineStyle: { color: line } },
    splitLine: { lineStyle: { color: line, opacity: 0.5 } },
    ...more,
  };
}

// The colours of a chart, for light and for dark pages.

interface Theme {
  readonly text: string;
  readonly line: string;
  readonly ours: string;
  readonly others: string;
  readonly floor: string;
  /** Of curves, one after the other. */
  readonly palette: string[];
}

export const THEMES: { readonly light: Theme; readonly dark: Theme } = {
  light: {
    text: '#1f2328',
    line: '#d1d9e0',
    ours: '#0969da',
    others: '#9aa5b1',
    floor: '#d4a72c',
    palette: ['#0969da', '#bc4c00', '#8250df', '#1a7f37', '#cf222e', '#6e7781', '#bf3989'],
  },
  dark: {
    text: '#e6edf3',
    line: '#3d444d',
    ours: '#4493f8',
    others: '#6e7681',
    floor: '#bb8009',
    palette: ['#4493f8', '#f0883e', '#ab7df8', '#3fb950', '#f85149', '#9198a1', '#db61a2'],
  },
};
