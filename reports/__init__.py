"""The sections of the report: one per file."""
