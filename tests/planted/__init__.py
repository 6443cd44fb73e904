"""Plants faults in random programs and compares the findings with what is true of each run.

`background` draws a machine and harmless programs, `faults` plants, `perturb` damages the
recording, `truth` measures the run without the recording, `detectors` maps findings to truths,
`score` counts.
"""
