"""Join two complete stores of one format: the rows of the second one come after those of the first."""
