"""The level inputs_only: values before a reset, and the inputs since then."""
