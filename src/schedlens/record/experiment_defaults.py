"""The names of the experiments, and the default durations and repeats of their cells."""

NAMES = ("pairs", "scaling", "smt-boost", "handoff", "shards")
# Default duration of a cell in seconds; requests and frames need more time.
CELL_S = {"pairs": 0.3, "scaling": 0.3, "smt-boost": 2.0, "handoff": 1.0, "shards": 2.0}
# How long the user's program may run in a cell by default.
COMMAND_S = 60.0
# Fewer than six repeats cannot bound a median with 95 % confidence.
REPEATS = 6
