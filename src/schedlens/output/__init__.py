"""What people read and files that are written: terminal, progress, wording, whole files."""
