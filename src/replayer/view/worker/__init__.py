"""The processes of a tape for the page: one seeks, fills the cache and describes ticks, one reads the marks."""
