from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.lakes import ORDERS, PROJECT, Bed, of_log


def test_first(spark: SparkSession, tmp_path: Path) -> None:
    bed = Bed(spark, tmp_path, PROJECT + ORDERS)
    bed.append("orders", {"id": 1, "total": 2.5, "name": "a"}, {"id": 2}, {"id": "x"}, {"total": 1}, [1])
    bed.append("clicks:web", {"p": 1}, tag="t", node="n")
    import time
    t = time.perf_counter()
    print(bed.run(), time.perf_counter() - t)
    t = time.perf_counter()
    print(bed.run(), time.perf_counter() - t)
    with bed.log() as log:
        assert bed.records() == of_log(log)
        log.delete("orders", seqs=[2]) if False else log.delete("orders", before_seq=2)
    bed.frame("orders").show()
    bed.frame("orders_quarantine").show(truncate=False)
    print(bed.run())
    bed.frame("orders").show()
    t = time.perf_counter()
    print(bed.run(), time.perf_counter() - t)
