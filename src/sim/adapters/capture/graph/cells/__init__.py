"""Which cells of a graph have changed, how they are encoded, and rows that come and go."""
