"""Everything outside the state that a step can read or change: walked, compared and given to a copy."""
