"""Recording on Windows: everything that Linux does otherwise."""
