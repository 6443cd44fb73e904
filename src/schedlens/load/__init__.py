"""Loads recordings into the database: readers, base and derived tables, frames."""
