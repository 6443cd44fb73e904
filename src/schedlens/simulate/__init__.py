"""A scheduler simulation: machines, Windows-like rules, scripted programs, and the truth.

`machine` describes logical CPUs, `script` what a thread does, `rules` how systems differ.
`cpu_choice` decides where threads run, `scheduler` when. `events` are what a recorder would have
written, `truth` is what happened. `engine` and `cases` are programs.
"""
