"""Recording on Linux with perf."""
