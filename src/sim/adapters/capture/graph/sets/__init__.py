"""Sets whose tables can be rebuilt in any process: the values that hash alike, and what was seen in each set."""
