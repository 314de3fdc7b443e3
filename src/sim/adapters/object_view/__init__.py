"""Show captured objects by the paths of their values, from a state alone: without their classes, and without a run."""
