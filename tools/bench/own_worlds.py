"""Peers that record only one kind of world, compared with this recorder on worlds of that kind.

CartPole of Gymnasium, with Minari's DataCollector: episode after episode, with its data set written at the end. The probe
of examples/record_rebound.py, with rebound's Simulationarchive: a snapshot each step. Both worlds are stepped alone, too:
the cost of a way beyond the step is the difference to the median of that.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import random
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import turns

import recorder

EXAMPLES = Path(__file__).parents[2] / "examples"


class OwnWorld:
    """Base of the ways for both worlds, see turns.py. A subclass has needs, tick and close."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.step_ns = folder, 0

    def is_keyframe(self, _: int) -> bool:
        """Keyframes come at the default interval, and count."""
        return False

    def after(self, _: int) -> None:
        """Nothing."""

    def finish(self) -> dict[str, Any]:
        """Close."""
        start = time.perf_counter()
        self.close()
        return {"close_s": time.perf_counter() - start, "size_bytes": turns.folder_bytes(self.folder)}

    def close(self) -> None:
        """End."""


class CartPole(OwnWorld):
    """The environment, recorded or not."""

    needs = "gymnasium"

    def __init__(self, folder: Path) -> None:
        import gymnasium  # noqa: PLC0415 - in its own process only

        warnings.simplefilter("ignore")
        super().__init__(folder)
        self.env: Any = self.wrapped(gymnasium.make("CartPole-v1"))
        draws = random.Random(1)
        self.actions = [draws.randrange(2) for _ in range(1000)]
        self.env.reset(seed=1)

    def wrapped(self, env: Any) -> Any:
        """The environment that is stepped."""
        return env

    def tick(self, tick: int) -> None:
        """A step, and a reset where an episode ends."""
        _, _, terminated, truncated, _ = self.env.step(self.actions[tick % 1000])
        if terminated or truncated:
            self.env.reset()

    def close(self) -> None:
        """Close."""
        self.env.close()


class RecordedCartPole(CartPole):
    """By this recorder, with the defaults of record()."""

    def wrapped(self, env: Any) -> Any:
        """The recorded environment."""
        return recorder.record(env, self.folder / "run.tape", quiet=True)


class MinariCartPole(CartPole):
    """By Minari."""

    needs = "minari"

    def wrapped(self, env: Any) -> Any:
        """The collector, with its defaults except for infos, which CartPole does not have."""
        os.environ["MINARI_DATASETS_PATH"] = str(self.folder)
        from minari import DataCollector  # noqa: PLC0415 - reads the variable

        return DataCollector(env, record_infos=False)

    def close(self) -> None:
        """Write the data set."""
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            self.env.create_dataset("bench/cartpole-v0")
        self.env.close()


class Probe(OwnWorld):
    """The example's simulation, recorded or not."""

    needs = "rebound"

    def __init__(self, folder: Path) -> None:
        sys.path.insert(0, str(EXAMPLES))
        from record_rebound import Probe as Example  # noqa: PLC0415
        from record_rebound import random_inputs  # noqa: PLC0415

        super().__init__(folder)
        self.probe = Example()
        draw = random_inputs(1)
        self.inputs = [draw() for _ in range(1000)]
        self.open()

    def open(self) -> None:
        """Begin."""

    def tick(self, tick: int) -> None:
        """A step."""
        self.probe.step(self.inputs[tick % 1000])


class RecordedProbe(Probe):
    """By this recorder, in the save/load form."""

    def open(self) -> None:
        """Begin a tape."""
        self.tape = recorder.Recorder(self.folder / "run.tape", self.probe)

    def tick(self, tick: int) -> None:
        """The recorder steps."""
        self.tape.step(self.inputs[tick % 1000])

    def close(self) -> None:
        """Seal."""
        self.tape.close()


class ArchivedProbe(Probe):
    """By rebound's Simulationarchive."""

    def open(self) -> None:
        """Begin an archive; the integrator appends a snapshot to it at each step."""
        self.probe.sim.save_to_file(str(self.folder / "run.bin"), step=1, delete_file=True)


WORLDS: dict[str, dict[str, type[CartPole | Probe]]] = {
    "CartPole": {"alone": CartPole, "ours": RecordedCartPole, "Minari": MinariCartPole},
    "rebound": {"alone": Probe, "ours": RecordedProbe, "Simulationarchive": ArchivedProbe},
}


def missing(kind: type[CartPole | Probe]) -> str:
    """The name of the missing package, else empty."""
    return kind.needs if importlib.util.find_spec(kind.needs) is None else ""
