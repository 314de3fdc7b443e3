"""The page of `replay view` in a cell of a notebook."""
