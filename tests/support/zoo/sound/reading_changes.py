"""Cause 11: reading changes the state. Here telemetry only reads."""

from zoo.flock import Flock


class TelemetryDraws(Flock):
    def telemetry(self):
        return {"luck": int(self.state["x"][0])}
