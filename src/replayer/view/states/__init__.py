"""What the page of `replay view` shows of a state: maps, tables, figures, as bytes and JSON."""
