"""Facts, text and HTML about tapes and results."""
