"""The experiments: pairs, scaling, smt-boost, handoff, shards; each has a file of its own."""
