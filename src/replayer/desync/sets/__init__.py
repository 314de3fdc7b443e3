"""Whether a step may iterate over sets whose order differs between processes."""
