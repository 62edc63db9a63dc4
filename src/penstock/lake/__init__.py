"""The lake: topics as Parquet tables (bronze, silver, gold)."""
