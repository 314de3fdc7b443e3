"""One tape verified in many environments."""
