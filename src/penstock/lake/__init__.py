"""The lake: topics as Parquet tables, from exact records to what people ask of them."""
