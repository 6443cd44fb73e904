"""Where a series of numbers changes its level: PELT of the library ruptures."""

from __future__ import annotations

import math
from collections.abc import Sequence

import duckdb

from schedlens.lake.extras import needed

# Values on each side of a change; with fewer, one outlier would be a level of its own.
LEAST_VALUES = 3
# The penalty of a change, in units of the variance of the noise times ln(n). The usual 2 finds one
# change that is not there in every few series of this length.
_PENALTY = 4.0


def found(values: Sequence[float]) -> list[int]:
    """The places (from 0) at which a new level of the logarithm of the values begins.

    The noise is estimated from the differences of neighbors, so that changes do not count as noise.
    Empty for fewer than 6 values, or if none is a change.
    """
    if len(values) < 2 * LEAST_VALUES:
        return []
    numpy = needed("numpy", "fleet")
    ruptures = needed("ruptures", "fleet")
    series = numpy.log(numpy.maximum(numpy.asarray(values, dtype=float), 1e-9))
    steps = numpy.abs(numpy.diff(series))
    # The median of |difference| of two normal values is 0.954 standard deviations of one.
    noise = max(float(numpy.median(steps)) / 0.954, 0.01)
    penalty = _PENALTY * noise**2 * math.log(len(values))
    # The linear kernel is the squared distance from the mean; this form of PELT is compiled.
    search = ruptures.KernelCPD(kernel="linear", min_size=LEAST_VALUES).fit(series.reshape(-1, 1))
    return [int(place) for place in search.predict(pen=penalty)[:-1]]


def install(con: duckdb.DuckDBPyConnection) -> None:
    """The function `change_points(list(value ORDER BY time))`, a list of places from 0."""
    con.create_function("change_points", found, ["DOUBLE[]"], "BIGINT[]")
