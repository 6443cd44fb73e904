"""Damages recordings with known truth in their bytes and checks what the queries claim.

`python -m damage` (with tests/ on the path) runs it and prints one table per format. A run writes
a recording, damages a copy, loads both, and compares the rows of every query within the bounds
that the comments of its columns state.
"""
