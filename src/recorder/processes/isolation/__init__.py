"""What code in an isolated copy of a process may not call, and how that is noted."""
