"""Worker processes, forks and signals."""
