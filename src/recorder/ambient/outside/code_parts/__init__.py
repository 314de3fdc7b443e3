"""The parts of the user's code that are neither functions nor values: class statements, decorators, and what names stand for."""
