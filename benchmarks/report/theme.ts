// The colours of a chart, for pages that are light and for those that are dark.

export interface Theme {
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
