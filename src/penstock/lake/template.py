"""The files of a new project. Pure."""

from __future__ import annotations

from typing import Final

PROJECT: Final = """\
# A pipeline: topics of a log become Parquet tables. Run it with `penstock pipeline run`.
# Paths begin at the directory of this file.

[source]
path = "penstock-data"             # a data directory; another process may write to it
# url = "http://127.0.0.1:4000"    # or a server; the token is in the variable that token_env names
# token_env = "PENSTOCK_TOKEN"
topics = ["orders", "orders.*"]    # names, or patterns with *

[lake]
path = "lake"
# batch_records = 2_000_000        # at most so many records in one commit
# keep_versions = 10               # commits of a table that can still be read

[compaction]
# files_min = 8                    # merge so many small files of one topic and day
# small_bytes = 33_554_432
# target_bytes = 134_217_728

# Silver: one table for the topics that match. A column comes from the field of the same name of a
# record's JSON object, or from the one that `from` names. Types: boolean, int, long, float, double,
# decimal(10,2), string, timestamp, date, and json, which is any value as text. A record that does
# not fit goes to quarantine.
[silver.orders]
topics = ["orders", "orders.*"]
# evolve = true                    # new fields become columns, numeric types widen
# deletes = "ignore"               # keep records that are deleted in the log

[silver.orders.columns]
id = { type = "long", required = true }
customer = "string"
total = "double"
placed = { type = "timestamp", from = "placed_at" }

# Gold: rebuilt from the other tables when they have changed, by SQL or Python.
[gold.revenue]
sql = "revenue.sql"                # or python = "gold.py:revenue"
"""

SQL: Final = """\
-- Tables: bronze, gaps, and each silver table with its quarantine (orders, orders_quarantine).
SELECT customer, count(*) AS orders, sum(total) AS total
FROM orders
GROUP BY customer
"""

FILES: Final = {"pipeline.toml": PROJECT, "revenue.sql": SQL}
