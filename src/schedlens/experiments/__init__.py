"""The experiments pairs, scaling, smt-boost, handoff and shards, one per file."""
