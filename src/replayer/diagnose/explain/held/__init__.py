"""Which objects the instance of a step holds, and the states of random generators, for what is compared."""
