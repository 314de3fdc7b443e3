"""A desync finding kept on disk."""
