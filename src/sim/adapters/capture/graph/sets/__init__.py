"""What was seen in each set, so that its table can be rebuilt."""
