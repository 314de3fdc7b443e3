"""Numbers that are equal on every machine: decimals as int64, random words by key."""
