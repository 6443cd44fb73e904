"""The server of `schedlens serve`: the report and the timeline of one session, for one user."""
