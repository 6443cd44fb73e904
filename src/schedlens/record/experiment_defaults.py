"""The names of the experiments, and how long and how often their cells run by default."""

NAMES = ("pairs", "scaling", "smt-boost", "handoff", "shards")
# Seconds that a cell takes unless it is told otherwise: requests and frames need more.
CELL_S = {"pairs": 0.3, "scaling": 0.3, "smt-boost": 2.0, "handoff": 1.0, "shards": 2.0}
# How long a program of the user's may take in a cell unless it is told otherwise.
COMMAND_S = 60.0
# Fewer than six cannot bound a median with 95 % confidence.
REPEATS = 6
