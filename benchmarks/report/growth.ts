// A curve: how something grows with the size of what is asked for.

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
