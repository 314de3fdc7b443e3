"""One recording session, on the simulation's thread: what is recorded, and when."""
