"""A model of the whole: random operations on tapes and their readers, compared with a plain account of the truth."""
