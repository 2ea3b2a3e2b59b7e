// The statistics of the benchmarks, checked with figures that can be worked out by hand.
import { describe, expect, it } from 'vitest';
import {
  jainIndex,
  median,
  pairedRatio,
  quantile,
  spread,
  width,
} from '../../../benchmarks/support/figures.js';

describe('quantile()', () => {
  it('lies between two samples in proportion, whatever their order', () => {
    expect(quantile([40, 10, 30, 20], 0)).toBe(10);
    expect(quantile([40, 10, 30, 20], 0.5)).toBe(25);
    expect(quantile([40, 10, 30, 20], 0.75)).toBe(32.5);
    expect(quantile([40, 10, 30, 20], 1)).toBe(40);
  });

  it('orders numbers as numbers', () => {
    expect(median([9, 100, 10])).toBe(10);
  });

  it('leaves the samples as they are', () => {
    const samples = [3, 1, 2];
    quantile(samples, 0.5);
    expect(samples).toEqual([3, 1, 2]);
  });

  it('is not a number where there are no samples', () => {
    expect(quantile([], 0.5)).toBeNaN();
  });
});

describe('pairedRatio()', () => {
  it('is the same in a slow round as in a fast one', () => {
    expect(pairedRatio([2, 20, 200], [1, 10, 100])).toEqual({ median: 2, lower: 2, upper: 2 });
  });

  it('is the median of the ratios, not the ratio of the medians', () => {
    expect(pairedRatio([1, 6, 8], [1, 2, 8]).median).toBe(1);
  });

  it('shows the range of the middle half of the rounds', () => {
    expect(pairedRatio([1, 2, 3, 4, 5], [1, 1, 1, 1, 1])).toEqual({
      median: 3,
      lower: 2,
      upper: 4,
    });
  });
});

describe('width()', () => {
  it('is 0 when all rounds are equal, even at 0', () => {
    expect(width(spread([1, 2, 3, 4, 5]))).toBeCloseTo(2 / 3);
  });

  it('is nothing when all rounds came out alike, also at nothing', () => {
    expect(width(spread([0, 0, 0]))).toBe(0);
  });
});

describe('jainIndex()', () => {
  it('is 1 when all got the same', () => {
    expect(jainIndex([7, 7, 7])).toBe(1);
  });

  it('is 1/n when one of n got everything', () => {
    expect(jainIndex([9, 0, 0, 0])).toBe(0.25);
  });

  it('is in between when some share it', () => {
    expect(jainIndex([1, 1, 0, 0])).toBe(0.5);
  });

  it('is not a number when nobody got anything', () => {
    expect(jainIndex([0, 0])).toBeNaN();
  });
});
