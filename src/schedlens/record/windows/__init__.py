"""Recording on Windows with WPR or xperf."""
