"""Frames: PresentMon captures and frames that a program stamped itself."""
