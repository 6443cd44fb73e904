"""Output for people and to files: terminal, progress, wording, atomic writes."""
