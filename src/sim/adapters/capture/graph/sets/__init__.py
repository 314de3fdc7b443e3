"""Hash tables of sets: read, rebuilt, and the values that hash alike in every process."""
