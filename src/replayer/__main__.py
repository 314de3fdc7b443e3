"""``python -m replayer``: the command ``replay``, also where its script is not on the path."""

from __future__ import annotations

from simulation_flight_recorder import replay

if __name__ == "__main__":
    replay()
