"""Folds of points on the Earth, taken as a sphere of radius 6371 km.

A point outside of -90..90 and -180..180 degrees is left out.
"""

from __future__ import annotations

from math import asin, cos, sin, sqrt

from penstock.codec.kernel_source import cython_shim as cython


def _radians(degrees):
    return degrees * 0.017453292519943295


def _is_place(lat, lon):
    return -90.0 <= lat <= 90.0 and -180.0 <= lon <= 180.0


def _turn(degrees):
    """The same angle within -180..180, of one within -540..540."""
    if degrees > 180.0:
        return degrees - 360.0
    if degrees < -180.0:
        return degrees + 360.0
    return degrees


def _arc_km(lat, lon, cos_lat, other_lat, other_lon, other_cos_lat):
    """The great circle between two points in radians, by the haversine formula."""
    north: cython.double
    east: cython.double
    part: cython.double
    if lat == other_lat and lon == other_lon:
        return 0.0
    north = sin((other_lat - lat) * 0.5)
    east = sin((other_lon - lon) * 0.5)
    part = north * north + cos_lat * other_cos_lat * (east * east)
    return 12742.0 * asin(sqrt(part if part < 1.0 else 1.0))


def fold_paths(
    rows: cython.const[int64_t][::1],
    ts: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    lats: cython.const[cython.double][::1],
    lons: cython.const[cython.double][::1],
    ints: int64_t[:, ::1],
    floats: cython.double[:, ::1],
):
    """Integers: points, newest ts, speeds. Floats: newest point (latitude and longitude in
    radians, cosine of the latitude), km travelled, greatest speed in km/h. A point older than
    the newest is left out; between points of one time there is a way and no speed."""
    i: cython.Py_ssize_t
    row: int64_t
    gap: int64_t
    lat: cython.double
    lon: cython.double
    cos_lat: cython.double
    km: cython.double
    kmh: cython.double
    with cython.nogil:
        for i in range(rows.shape[0]):
            if not (passes[i] and present[i] and _is_place(lats[i], lons[i])):
                continue
            row = rows[i]
            if ints[row, 0] > 0 and ts[i] < ints[row, 1]:
                continue
            lat = _radians(lats[i])
            lon = _radians(lons[i])
            cos_lat = cos(lat)
            if ints[row, 0] > 0:
                gap = ts[i] - ints[row, 1]
                km = _arc_km(floats[row, 0], floats[row, 1], floats[row, 2], lat, lon, cos_lat)
                floats[row, 3] += km
                if gap > 0:
                    kmh = km / (gap / 3600000.0)
                    ints[row, 2] += 1
                    if kmh > floats[row, 4]:
                        floats[row, 4] = kmh
            ints[row, 0] += 1
            ints[row, 1] = ts[i]
            floats[row, 0] = lat
            floats[row, 1] = lon
            floats[row, 2] = cos_lat


def fold_spreads(
    rows: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    lats: cython.const[cython.double][::1],
    lons: cython.const[cython.double][::1],
    ints: int64_t[:, ::1],
    floats: cython.double[:, ::1],
):
    """Integers: points. Floats, in degrees: mean latitude, mean longitude, and the sums of squared
    distances from each, by Welford's method. A longitude counts by the shorter way around."""
    i: cython.Py_ssize_t
    row: int64_t
    count: cython.double
    north: cython.double
    east: cython.double
    with cython.nogil:
        for i in range(rows.shape[0]):
            if not (passes[i] and present[i] and _is_place(lats[i], lons[i])):
                continue
            row = rows[i]
            ints[row, 0] += 1
            count = ints[row, 0]
            if count == 1.0:
                floats[row, 0] = lats[i]
                floats[row, 1] = lons[i]
                continue
            north = lats[i] - floats[row, 0]
            east = _turn(lons[i] - floats[row, 1])
            floats[row, 0] += north / count
            floats[row, 1] = _turn(floats[row, 1] + east / count)
            floats[row, 2] += north * (north - north / count)
            floats[row, 3] += east * (east - east / count)


def fold_places(
    rows: cython.const[int64_t][::1],
    passes: cython.const[uint8_t][::1],
    present: cython.const[uint8_t][::1],
    lats: cython.const[cython.double][::1],
    lons: cython.const[cython.double][::1],
    samples: int64_t,
    ints: int64_t[:, ::1],
    floats: cython.double[:, ::1],
):
    """Integers: points. Floats: a ring of the last `samples` of them, two floats each."""
    i: cython.Py_ssize_t
    row: int64_t
    at: int64_t
    with cython.nogil:
        for i in range(rows.shape[0]):
            if not (passes[i] and present[i] and _is_place(lats[i], lons[i])):
                continue
            row = rows[i]
            at = 2 * (ints[row, 0] % samples)
            floats[row, at] = lats[i]
            floats[row, at + 1] = lons[i]
            ints[row, 0] += 1


def home_distance(
    row: int64_t, samples: int64_t, ints: int64_t[:, ::1], floats: cython.double[:, ::1]
):
    """The km from the newest point of a row to the mean of its ring; None without points."""
    count: int64_t = ints[row, 0]
    first: int64_t = count - samples if count > samples else 0
    i: int64_t
    at: int64_t
    lat: cython.double
    lon: cython.double
    north: cython.double = 0.0
    east: cython.double = 0.0
    home: cython.double
    if count == 0:
        return None
    at = 2 * ((count - 1) % samples)
    lat = floats[row, at]
    lon = floats[row, at + 1]
    for i in range(first, count):
        at = 2 * (i % samples)
        north += floats[row, at] - lat
        east += _turn(floats[row, at + 1] - lon)
    home = _radians(lat + north / (count - first))
    return _arc_km(
        _radians(lat),
        _radians(lon),
        cos(_radians(lat)),
        home,
        _radians(lon + east / (count - first)),
        cos(home),
    )
