"""Players of the meadow: their view, scripted policies, training data."""

from sim.worlds.meadow.players.view import look

__all__ = ["look"]
