"""Names of values: the steps of a path, and keys of dicts by the text that is printed of them."""
