"""The names of the experiments, and the default durations and repeats of their cells."""

NAMES = ("pairs", "scaling", "smt-boost", "handoff", "shards")
# Default duration of a cell in seconds; requests and frames need more time.
CELL_S = {"pairs": 0.3, "scaling": 0.3, "smt-boost": 2.0, "handoff": 1.0, "shards": 2.0}
# Seconds in which the workers of a cell run before they are measured, so that clock, caches and
# queues are those of the cell's own load.
WARM_UP_S = {"pairs": 0.2, "scaling": 0.2, "smt-boost": 1.0, "handoff": 0.2, "shards": 0.5}
# How long the machine rests after a setting changed: CPUs come online, governors adjust.
SETTLE_S = 1.0
# Cells with fewer undisturbed repeats than requested are repeated, up to this many times the
# requested repeats in total.
MOST_TIMES = 2
# How long a live service is measured in a cell by default.
SERVICE_S = 10.0
# How long the user's program may run in a cell by default.
COMMAND_S = 60.0
# Fewer than six repeats cannot bound a median with 95 % confidence.
REPEATS = 6
