"""What a step reads of the outside world, replaced for a test: files, times, variables, addresses, clocks, chance."""
