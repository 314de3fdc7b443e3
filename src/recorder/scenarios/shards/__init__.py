"""Scenarios whose world runs in shards, the tapes of the shards, and checkpoints by shards."""
