"""The structures of a tape file, one per module, each with its encoder and decoder."""
