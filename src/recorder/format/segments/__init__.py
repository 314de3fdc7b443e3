"""One file of a tape: writing and finding blocks, index and seal."""
