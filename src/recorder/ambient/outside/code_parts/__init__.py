"""The parts of the user's code that are neither functions nor values: class statements, decorators, what names stand for, what texts name."""
