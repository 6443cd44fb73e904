"""The experiments: pairs, scaling, smt-boost, handoff, shards; each has a file of its own."""

NAMES = ("pairs", "scaling", "smt-boost", "handoff", "shards")
# What an experiment takes unless it is told otherwise: seconds a cell, and repeats of all cells.
CELL_S = 0.3
# Fewer than six cannot bound a median with 95 % confidence.
REPEATS = 6
