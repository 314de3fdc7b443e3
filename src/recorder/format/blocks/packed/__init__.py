"""Blocks of packed tapes: frames as streams that compress better, and what they are unpacked to."""
