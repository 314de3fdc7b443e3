"""Files that are no Python code and that two versions of the code have with other content: each is exchanged, as a test."""
