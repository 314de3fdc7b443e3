"""One run: its source of inputs, its mode, its outcome."""
