"""Training data out of recordings: plan, walk, rows, files, one data set."""
