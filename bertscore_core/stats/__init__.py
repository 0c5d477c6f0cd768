"""Statistics of scores: sums that merge, errors, intervals, comparisons, agreement with people."""
