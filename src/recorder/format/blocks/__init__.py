"""The structures of a tape file, one module each; encoder and decoder side by side."""
