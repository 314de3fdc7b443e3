"""The lowest layer: the state, its hash, its changes, random numbers and the step. Pure: no files, clocks, threads."""
