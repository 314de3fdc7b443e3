"""Error growth of simulations that are not bit-exact."""
