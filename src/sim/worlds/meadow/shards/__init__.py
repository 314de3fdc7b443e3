"""The meadow in shards: stripes of rows that exchange messages and together give the states of one process.

docs/meadow-rules.md has a table of the rules and how each of them crosses borders.
"""
