"""Answers the timeline's requests from a database: overview, lanes, totals, slices, wakers."""
