"""Command-line behaviour: errors in one line, progress bars, closed pipes. Only commands import it."""
