"""The first tick at which a replay goes another way than its recording."""
