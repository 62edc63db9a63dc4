from __future__ import annotations

from penstock.server.metrics_text import MetricsText


def test_a_family_is_named_before_its_samples() -> None:
    page = MetricsText()
    page.gauge("topics", "Topics.", 3)
    page.family("bytes_total", "counter", "Bytes.")
    page.sample("bytes_total", 1.5, 'kind="a"')
    page.sample("bytes_total", True, 'kind="b"')

    assert page.text().decode().splitlines() == [
        "# HELP penstock_topics Topics.",
        "# TYPE penstock_topics gauge",
        "penstock_topics 3",
        "# HELP penstock_bytes_total Bytes.",
        "# TYPE penstock_bytes_total counter",
        'penstock_bytes_total{kind="a"} 1.5',
        'penstock_bytes_total{kind="b"} 1',
    ]
