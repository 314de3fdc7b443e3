"""Tapes in a user's tests: those of tests that failed, and golden ones that a run is compared with."""
