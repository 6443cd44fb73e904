"""The recorders: one per file."""
