"""Writes analyzed recordings in the formats of other tools."""
