"""Exports for viewers: Rerun and MCAP."""
