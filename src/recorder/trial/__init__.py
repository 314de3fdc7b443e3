"""Trials of a simulation before it is recorded: restored and run again in copies of this process."""
