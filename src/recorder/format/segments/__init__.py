"""One file of a tape: place blocks, find blocks, index and seal."""
