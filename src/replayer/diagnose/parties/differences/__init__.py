"""The differences between two parties: found, and given from one to the other."""
