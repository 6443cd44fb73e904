"""Two readings of one recording, compared row by row."""
