"""The questions judged: one question per file, from query rows to findings."""
