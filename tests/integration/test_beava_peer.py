"""One program, with beava's own server and with ours: equal rows, but for what the page lists."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import beava as bv
import pytest

from tests.support.beava_embed import be_patient, embedded, use_our_binary

EVENTS = 300
BIG = bv.col("amount") > 20


@bv.event
class Txn:
    user_id: str
    amount: float
    merchant: str
    ip: str
    lat: float
    lon: float
    ts: int


@bv.event
def Large(txn: Txn) -> Any:
    return (
        txn.filter(BIG & ~(bv.col("merchant") == "m_1"))
        .with_columns(cents=bv.col("amount") * 100, half=bv.col("ts") / 2)
        .cast(cents="int")
        .fillna(ip="none")
        .drop("lat", "lon")
        .rename(merchant="shop")
    )


@bv.table(key="user_id")
def Users(txn: Txn) -> Any:
    return txn.group_by("user_id").agg(
        count=bv.count(),
        count_where=bv.count(window="1h", where=bv.col("amount") > 10),
        sum=bv.sum("amount", window="1d"),
        mean=bv.mean("amount"),
        min=bv.min("amount"),
        max=bv.max("amount"),
        var=bv.var("amount"),
        std=bv.std("amount"),
        ratio=bv.ratio(where=BIG),
        n_unique=bv.n_unique("merchant"),
        quantile=bv.quantile("amount", q=0.9),
        top_k=bv.top_k("merchant", k=3),
        entropy=bv.entropy("merchant"),
        first=bv.first("merchant"),
        last=bv.last("merchant"),
        first_n=bv.first_n("amount", n=3),
        last_n=bv.last_n("amount", n=3),
        lag=bv.lag("amount", n=2),
        has_seen=bv.has_seen(),
        streak=bv.streak(where=BIG),
        max_streak=bv.max_streak(where=BIG),
        negative_streak=bv.negative_streak(where=BIG),
        first_seen_in_window=bv.first_seen_in_window(window="1h"),
        delta_from_prev=bv.delta_from_prev("amount"),
        outlier_count=bv.outlier_count("amount", window="1d"),
        value_change_count=bv.value_change_count("merchant", window="1d"),
        z_score=bv.z_score("amount", baseline_window="1d"),
        histogram=bv.histogram("amount", buckets=[5, 20.5, 100]),
        event_type_mix=bv.event_type_mix("merchant"),
        geo_distance=bv.geo_distance(lat="lat", lon="lon"),
        geo_spread=bv.geo_spread(lat="lat", lon="lon"),
        distance_from_home=bv.distance_from_home(lat="lat", lon="lon"),
        most_recent_n=bv.most_recent_n("amount", n=3),
    )


@bv.table(key=["user_id", "shop"])
def Shops(large: Large) -> Any:
    return large.group_by("user_id", "shop").agg(sales=bv.count(), cents=bv.sum("cents"))


@bv.table
def All(large: Large) -> Any:
    return large.agg(all_sales=bv.count(), most_cents=bv.max("cents"), least_half=bv.min("half"))


def rows(app: bv.App) -> dict[str, Any]:
    """Of every user, shop and all."""
    app.register(Txn, Large, Users, Shops, All)
    events = [one for one in bv.demo("fraud")["events"] if one["_event"] == "Txn"][:EVENTS]
    for event in events:
        app.push("Txn", {name: value for name, value in event.items() if name != "_event"})
    users = sorted({event["user_id"] for event in events})
    shops = sorted({f"{event['user_id']}|{event['merchant']}" for event in events})
    reads = [*(("Users", one) for one in users), *(("Shops", one) for one in shops), ("All", "")]
    return dict(zip(map(" ".join, reads), app.batch_get(reads), strict=True))


def is_same(left: Any, right: Any) -> bool:
    """Sums of floats may have another order."""
    if left is None or right is None:
        return left is right
    if isinstance(left, float) or isinstance(right, float):
        return left == right or math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(is_same(left[one], right[one]) for one in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(is_same, left, right))
    return bool(left == right)


def test_an_unmodified_program_reads_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("BEAVA_MEMORY_GOV_ENFORCE", "0")
    be_patient(monkeypatch)
    with embedded() as app:
        theirs = rows(app)
    use_our_binary(tmp_path, monkeypatch)
    with embedded() as app:
        ours = rows(app)

    assert ours.keys() == theirs.keys()
    sales = 0
    for read, row in ours.items():
        if read.startswith("Shops"):  # the original has no row for a key that was renamed
            assert theirs[read] == {}
            sales += row.get("sales", 0)
            continue
        if read.startswith("Users"):  # the newest first, as its documents have it
            theirs[read]["most_recent_n"].reverse()
        different = [name for name, value in row.items() if not is_same(value, theirs[read][name])]
        assert not different, (read, different, row, theirs[read])
    assert sales == ours["All "]["all_sales"] > 0
