"""The parts of an extraction: the processes that make them, and their rows."""
