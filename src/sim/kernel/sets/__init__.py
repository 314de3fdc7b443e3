"""Hash tables of sets: read, and rebuilt so that a set iterates as the live one; the values that hash alike in every process."""
