"""The only code that opens, names, locks, syncs and copies tape files."""
