"""The parts of an extraction: the tapes inspected, the processes that make the parts, and their rows."""
