"""Tapes of shards, read beside the tape of the whole: which shard differs, and the whole from its shards."""
