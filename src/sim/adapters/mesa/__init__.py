"""The adapter for Mesa models."""
