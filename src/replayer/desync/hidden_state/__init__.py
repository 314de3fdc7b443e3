"""Find state that takes part in a step and is not in the state, and name it."""
