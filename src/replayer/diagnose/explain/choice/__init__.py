"""What chose the objects for which two runs of a step call a function, and what a resumed generator had."""
