"""Uploads of tapes to URLs while they are recorded, and afterwards."""
