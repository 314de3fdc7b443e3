"""What a step reads of the world outside its process's memory: files, variables, clocks, chance, threads."""
