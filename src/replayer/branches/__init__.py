"""Branches: runs that leave a recorded one at some tick, as tapes of their own or in memory, and their families."""
