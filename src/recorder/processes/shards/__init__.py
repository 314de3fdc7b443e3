"""Shards of a world as processes that exchange messages."""
