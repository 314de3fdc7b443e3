"""Complete worlds that ship with the recorder; each knows nothing of being recorded."""
