"""Players of the meadow: what they see, scripted policies, training data."""

from sim.worlds.meadow.players.view import look

__all__ = ["look"]
