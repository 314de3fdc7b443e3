"""Find out where two runs part, and keep what is needed to find out why."""
