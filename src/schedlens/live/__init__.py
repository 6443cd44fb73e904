"""The machine as it is now, from short recordings."""
