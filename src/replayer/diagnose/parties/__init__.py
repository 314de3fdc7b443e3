"""Two recordings of what should be one run: where they diverge, and which difference between the parties does it."""
