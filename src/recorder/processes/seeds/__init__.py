"""The random generators that a process has once, in the process and in its copies."""
