"""A card payment is checked before it is answered: a small program on features.

A terminal asks for each payment. The check pushes it and reads the features of its card in one
call, and decides by three rules. A later version adds a feature, which is computed from history.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import penstock
from penstock import features
from penstock.features import DeclaredTable, EventChain, col

MINUTE_MS = 60_000


@features.event(time="at", lateness="10m", dedupe="id", dedupe_window="1d", sync="per_event")
class Payment:
    id: str
    card: str
    at: int
    amount: float
    merchant: str
    lat: float
    lon: float


@features.table(key="card", upstream=Payment)
def Card(payments: EventChain) -> Any:
    return payments.agg(
        paid_10m=features.count(window="10m"),
        usual=features.quantile("amount", q=0.5, window="30d"),
        known_merchant=features.bloom_member("merchant"),
        from_home_km=features.distance_from_home("lat", "lon"),
    )


@features.table(key="merchant", upstream=Payment)
def Merchant(payments: EventChain) -> Any:
    return payments.agg(
        cards_1d=features.n_unique("card", window="1d"),
        large=features.ratio(where=col("amount") > 500),
    )


def payments(now_ms: int) -> Iterator[dict[str, Any]]:
    """Payments of one card: id, minutes ago, amount, merchant, place."""
    oslo, lima = (59.9, 10.7), (-12.0, -77.0)
    for number, (ago, amount, merchant, (lat, lon)) in enumerate(
        [
            (600, 40.0, "grocer", oslo),
            (480, 25.0, "kiosk", oslo),
            (300, 60.0, "grocer", oslo),
            (90, 30.0, "kiosk", oslo),
            (60, 950.0, "jeweller", lima),
            (4, 20.0, "kiosk", oslo),
            (3, 20.0, "kiosk", oslo),
            (2, 20.0, "kiosk", oslo),
        ]
    ):
        yield {
            "id": f"p{number}",
            "card": "4711",
            "at": now_ms - ago * MINUTE_MS,
            "amount": amount,
            "merchant": merchant,
            "lat": lat,
            "lon": lon,
        }


def reasons(payment: dict[str, Any], card: dict[str, Any]) -> list[str]:
    """Why a payment is unusual. The row contains the payment itself."""
    found = []
    if not card["known_merchant"] and payment["amount"] > 10 * card["usual"]:
        found.append(f"{payment['amount']:g} at a new merchant, usually {card['usual']:g}")
    if card["from_home_km"] > 5_000:
        found.append(f"{card['from_home_km']:,.0f} km from home")
    if card["paid_10m"] > 2:
        found.append(f"{card['paid_10m']} payments in ten minutes")
    return found


def check(log: penstock.Log, payment: dict[str, Any]) -> None:
    """Push a payment, read its card, and decide."""
    pushed, (card,) = log.features.push_and_get("Payment", payment, [("Card", payment["card"])])
    if not isinstance(card, dict):
        raise SystemExit(f"{payment['id']}: {card.message}")
    seen = " (seen before)" if pushed.deduped else ""
    print(f"{payment['id']}: {', '.join(reasons(payment, card)) or 'fine'}{seen}")


def later_version() -> DeclaredTable:
    """The table of cards with one feature more."""

    @features.table(key="card", upstream=Payment, name="Card")
    def with_merchants(payments: EventChain) -> Any:
        return payments.agg(
            paid_10m=features.count(window="10m"),
            usual=features.quantile("amount", q=0.5, window="30d"),
            known_merchant=features.bloom_member("merchant"),
            from_home_km=features.distance_from_home("lat", "lon"),
            merchants=features.top_k("merchant", k=2),
        )

    return with_merchants


def run(path: str) -> None:
    """One program, stopped and started again as its next version."""
    now_ms = time.time_ns() // 1_000_000
    asked = list(payments(now_ms))
    with penstock.open(path) as log:
        if not log.features.version:  # in a second run the next version is registered already
            log.features.register(Card, Merchant)
        for payment in asked:
            check(log, payment)

    print("-- restart, next version --")
    with penstock.open(path) as log:
        done = log.features.register(later_version(), wait_s=60)
        print("changed:", ", ".join(change["name"] for change in done.changes) or "nothing")
        check(log, asked[-1])  # the terminal is not sure that it was heard: it asks again
        print("merchants:", log.features.get("Card", "4711", ["merchants"])["merchants"])
        print("jeweller:", log.features.get("Merchant", "jeweller"))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        run(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as scratch:
            run(scratch)
