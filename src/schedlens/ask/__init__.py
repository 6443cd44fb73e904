"""Questions and answers: the query catalog, findings, and their bounds."""
