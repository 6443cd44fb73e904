"""Many recordings as Parquet files that every query and every analyzer reads."""
