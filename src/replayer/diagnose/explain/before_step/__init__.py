"""Changes of the state between two steps, tried until the step gives the recorded state; the lines of the program that make such changes."""
