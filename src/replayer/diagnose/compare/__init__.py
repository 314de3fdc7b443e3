"""Two tapes compared, by their frames and by re-simulation."""
