"""The explanation of two tapes as text and as JSON."""
