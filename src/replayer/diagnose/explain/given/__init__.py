"""Values outside the state that one of two instances gets from the other one, as a test."""
