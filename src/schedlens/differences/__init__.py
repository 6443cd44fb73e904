"""Two sides of recordings compared: what differs, how surely, and what moved with it."""
