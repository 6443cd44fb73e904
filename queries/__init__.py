"""The questions in SQL: one per file."""
