"""Cause 11: reading changes the state: telemetry draws from the stream that the next step draws from."""

from sim import RandomStream

from zoo.flock import Flock


class TelemetryDraws(Flock):
    def telemetry(self):
        return {"luck": int(RandomStream(self.state["rng"]).integers(0, 100, 1)[0])}  # HERE: TelemetryDraws
