"""A scheduler simulation: machines, Windows-like rules, scripted programs, and the truth.

`machine` describes logical CPUs; `script` is what a thread does; `rules` differ between systems;
`placement` decides who runs where, `scheduler` until when; `records` is what a recorder would have
written of it, `truth` what really happened; `engine` and `cases` are programs; `tables` fills the
base tables.
"""
