"""What functools.lru_cache keeps, and the same results for the objects of another instance; the constants that compiled functions keep."""
