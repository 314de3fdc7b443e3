"""What code in a copy of a process may not do."""
