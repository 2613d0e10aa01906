"""Limits of the size of values, weights and parameters.

Values are below `LARGEST`; standard deviations, and means that must be positive, are kept above
`SMALLEST`. A row is then less than 2e120 deviations from a mean, the square of that is below 1e241,
and sums of 1e20 such squares of rows as heavy as `HEAVIEST` are far below 1.8e308, where float64
ends.
"""

LARGEST = 1e60
SMALLEST = 1e-60
LEAST_VARIANCE = 1e-120
LIGHTEST, HEAVIEST = 1e-200, 1e30  # limits of positive weights of rows
PRECISIONS = ("float32", "float64")  # dtypes in which a learner may store arrays
