"""The list of the runs of a folder for the page of `replay view`, and the runs that were opened from it."""
