"""Ways and distances of points on the Earth, taken as a sphere of radius 6371 km.

A point outside of -90..90 degrees of latitude and -180..180 of longitude is skipped, and a
longitude counts by the shorter way around.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from penstock.features import fold_kernel
from penstock.features.operators.number_rows import NumberRows
from penstock.features.operators.operator import Fold
from penstock.features.operators.operator_kind import (
    Arguments,
    FieldNeed,
    OperatorKind,
    Parameter,
)

KM_PER_DEGREE = 111.32
SAMPLES_MAX = 1024  # of one key

FIELDS: tuple[tuple[str, FieldNeed], ...] = (("lat_field", "number"), ("lon_field", "number"))


class GeoDistance(NumberRows):
    """The way through the points of each row, and the greatest speed on it."""

    def __init__(self) -> None:
        super().__init__(ints=3, floats=5)

    def fold(self, fold: Fold) -> None:
        lats, lons = fold.fields
        fold_kernel.chosen.fold_paths(
            fold.rows,
            fold.ts,
            fold.passes,
            lats.is_present & lons.is_present,
            lats.floats(),
            lons.floats(),
            self.ints,
            self.floats,
        )

    def value(self, rows: Sequence[int], now_ms: int) -> float | None:
        return math.fsum(self.floats.item(row, 3) for row in rows)


class GeoVelocity(GeoDistance):
    """That speed."""

    def value(self, rows: Sequence[int], now_ms: int) -> float | None:
        for row in rows:
            if self.ints.item(row, 2):
                return float(self.floats.item(row, 4))
        return None


class GeoSpread(NumberRows):
    """Moments of latitude and longitude."""

    def __init__(self) -> None:
        super().__init__(ints=1, floats=4)

    def fold(self, fold: Fold) -> None:
        lats, lons = fold.fields
        fold_kernel.chosen.fold_spreads(
            fold.rows,
            fold.passes,
            lats.is_present & lons.is_present,
            lats.floats(),
            lons.floats(),
            self.ints,
            self.floats,
        )

    def value(self, rows: Sequence[int], now_ms: int) -> float | None:
        for row in rows:
            count = self.ints.item(row, 0)
            lat, _, north, east = self.floats[row].tolist()
            if count > 1:
                shrink = math.cos(math.radians(lat))
                return KM_PER_DEGREE * math.sqrt((north + east * shrink * shrink) / count)
        return None


class DistanceFromHome(NumberRows):
    """A ring of the last points."""

    def __init__(self, samples: int) -> None:
        super().__init__(ints=1, floats=2 * samples)
        self._samples = samples

    def fold(self, fold: Fold) -> None:
        lats, lons = fold.fields
        fold_kernel.chosen.fold_places(
            fold.rows,
            fold.passes,
            lats.is_present & lons.is_present,
            lats.floats(),
            lons.floats(),
            self._samples,
            self.ints,
            self.floats,
        )

    def value(self, rows: Sequence[int], now_ms: int) -> float | None:
        for row in rows:
            return fold_kernel.chosen.home_distance(row, self._samples, self.ints, self.floats)
        return None


def _distance_from_home(arguments: Arguments) -> DistanceFromHome:
    return DistanceFromHome(arguments.parameters["samples"])


KINDS = (
    OperatorKind(
        name="geo_velocity",
        summary="The highest speed between two consecutive points, in km/h; null without "
        "consecutive points at different times.",
        fields=FIELDS,
        parameters=(),
        window="none",
        output="f64",
        make=lambda arguments: GeoVelocity(),
        row_bytes=lambda arguments: 64,
    ),
    OperatorKind(
        name="geo_distance",
        summary="The length of the path through all points, in km; 0.0 with fewer than two points.",
        fields=FIELDS,
        parameters=(),
        window="none",
        output="f64",
        make=lambda arguments: GeoDistance(),
        row_bytes=lambda arguments: 64,
    ),
    OperatorKind(
        name="geo_spread",
        summary="The root mean square of the distances of the points from their mean, in km, on a "
        "plane of 111.32 km a degree; null with fewer than two points.",
        fields=FIELDS,
        parameters=(),
        window="none",
        output="f64",
        make=lambda arguments: GeoSpread(),
        row_bytes=lambda arguments: 40,
    ),
    OperatorKind(
        name="distance_from_home",
        summary="The distance of the last point from the mean of the last `samples` points, which "
        "include it, in km; null without points.",
        fields=FIELDS,
        parameters=(Parameter("samples", "int", 100, minimum=1, maximum=SAMPLES_MAX),),
        window="none",
        output="f64",
        make=_distance_from_home,
        row_bytes=lambda arguments: 8 + 16 * int(arguments.parameters["samples"]),
    ),
)
