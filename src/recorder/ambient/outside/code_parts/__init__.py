"""The parts of the user's code that are neither functions nor plain values: class statements, decorators, what names stand for and keep, what texts name."""
