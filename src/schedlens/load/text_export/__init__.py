"""Reads recordings that other programs printed as text: perf script, xperf, wpaexporter."""
