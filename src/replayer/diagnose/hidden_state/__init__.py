"""State outside the declared state: found by restoring copies next to a live run."""
