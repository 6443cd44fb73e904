"""Faults planted in random programs, what is true of each run, and what the analyzers say of it.

`background` draws a machine and what runs on it without fault, `faults` plants, `perturb` spoils
the recording, `truth` measures the run without looking at the recording, `detectors` says which
finding stands for which truth, `score` counts.
"""
