"""Scenarios whose world runs in shards, and the tapes of the shards."""
