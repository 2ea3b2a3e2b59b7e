// Renders a chart as SVG, without a browser.

import { CustomChart, BarChart, LineChart } from 'echarts/charts';
import { GridComponent, LegendComponent, TitleComponent } from 'echarts/components';
import { init, use, type EChartsCoreOption } from 'echarts/core';
import { SVGRenderer } from 'echarts/renderers';
import type { Theme } from './theme.js';

use([BarChart, CustomChart, LineChart]);
use([GridComponent, LegendComponent, TitleComponent, SVGRenderer]);

const WIDTH = 760;

export function svg(height: number, theme: Theme, options: EChartsCoreOption): string {
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

export function titled(text: string, subtext: string, { text: color }: Theme): object {
  const style = { color, fontFamily: 'system-ui, sans-serif' };
  return {
    text,
    subtext,
    textStyle: { ...style, fontSize: 15, fontWeight: 600 },
    subtextStyle: { ...style, fontSize: 12 },
  };
}

export function axis({ text, line }: Theme, more: object): object {
  return {
    axisLabel: { color: text },
    axisLine: { lineStyle: { color: line } },
    splitLine: { lineStyle: { color: line, opacity: 0.5 } },
    ...more,
  };
}
