"""``python -m recorder``: the command ``record``, also where its script is not on the path."""

from __future__ import annotations

from simulation_flight_recorder import record

if __name__ == "__main__":
    record()
