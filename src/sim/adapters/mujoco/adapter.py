"""Record MuJoCo: an MjData, its model known by a hash; what is set between two steps is their input.

One tick is one step, or as many as were asked for, or a reset. Whatever part of the state somebody has set since the
last tick, ``ctrl`` before all, but forces and positions, too, is recorded as an input; ``ctrl`` always.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterable
from typing import Any

import mujoco
import numpy as np

from sim.adapters.capture.captured_state import CapturedState
from sim.adapters.interface.adapter_registry import Adapter, NotCapturedError
from sim.adapters.interface.capture_report import Report
from sim.adapters.interface.proxy import RecordedProxy
from sim.adapters.mujoco.mjdata import Bridge
from sim.kernel.exactness import Level, level_from
from sim.kernel.state import State

NAME = "mujoco"
LAYER = "data"


class MujocoSimulation:
    """An MjData as a simulation.

    Attributes:
        data, model: themselves.
        state: mjSTATE_INTEGRATION, part by part, and what the last step computed on the way.
        level: EXACT.
    """

    def __init__(
        self, data: Any, *, level: Level | str | None = None, pickler: Any = None, ignore: Iterable[str] = ()
    ) -> None:
        """Look at the data. ignore: names of parts that are known not to matter. Raises ValueError for another level."""
        self.level = level_from(level)
        if self.level is not Level.EXACT:
            raise ValueError(f"level={self.level.value!r}: MuJoCo's state can be saved, so 'exact' is what there is")
        self.data, self.model = data, data.model
        self.bridge = Bridge(self.model, data)
        self._ignored = tuple(ignore)
        self._captured = CapturedState(
            [(LAYER, self.bridge.arrays)], lambda *_: None, ignored=self._ignored, pickler=pickler
        )
        self.state: State = self._captured.state

    def step(self, inputs: Any) -> None:
        """Reset, or set what the inputs say and step. Raises ValueError for inputs of something else."""
        match inputs:
            case {"reset": None, "keyframe": int() | None as keyframe}:
                self._reset(keyframe)
            case {"count": int(count), **parts} if count > 0:
                for name, values in parts.items():
                    self.bridge.set(str(name), np.asarray(values, np.float64))
                mujoco.mj_step(self.model, self.data, nstep=count)
            case _:
                raise ValueError("these are the inputs of no MuJoCo simulation")
        self.bridge.take()
        self._captured.pack()
        self.state = self._captured.state

    def _reset(self, keyframe: int | None) -> None:
        if keyframe is None:
            mujoco.mj_resetData(self.model, self.data)
        elif 0 <= keyframe < self.model.nkey:
            mujoco.mj_resetDataKeyframe(self.model, self.data, keyframe)
        else:
            raise ValueError(f"keyframe {keyframe}: the model has {self.model.nkey}")
        mujoco.mj_forward(self.model, self.data)

    def inputs_now(self, count: int) -> dict[str, Any]:
        """The inputs of the next tick: what was set since the last one."""
        changed = self.bridge.changed()
        if self.model.nu:
            changed["ctrl"] = self.data.ctrl.copy()
        return {"count": count, **changed}

    def after_restore(self) -> None:
        """Make the data what the arena says. Raises NotCapturedError if it is of another model."""
        self._captured.state = self.state
        self._captured.unpack()
        self.bridge.put()

    def report(self) -> Report:
        """What is captured."""
        notes = (f"model {self.bridge.model_hash[:16]}", "contacts are computed anew at each step")
        return Report(NAME, "MjData", self.level, self._captured.parts(), notes)

    @property
    def adapter(self) -> dict[str, Any]:
        """What the tape says about how it was made."""
        return {
            "name": NAME,
            "package": NAME,
            "version": importlib.metadata.version(NAME),
            "class": "mujoco.MjData",
            "model": self.bridge.model_hash,
            "report": self.report().to_plain(),
            "ignored": list(self._ignored),
        }


class RecordedData(RecordedProxy):
    """What stands for a recorded MjData: its step is recorded, all else is the data's own."""

    def __init__(self, simulation: MujocoSimulation, tape: Any) -> None:
        """tape: what it is recorded by, with step(inputs) and close(outcome)."""
        super().__init__(simulation.data, tape)
        self.data, self.model = simulation.data, simulation.model
        self._simulation = simulation

    def step(self, ctrl: Any = None, count: int = 1) -> None:
        """mj_step, count times, recorded with all that was set in the data since the last tick. ctrl: set it first."""
        if ctrl is not None:
            self.data.ctrl[:] = ctrl
        self.tape.step(self._simulation.inputs_now(count))

    def reset(self, keyframe: int | None = None) -> None:
        """mj_resetData, or to a keyframe of the model, and mj_forward; recorded: an episode begins."""
        self.tape.step({"reset": None, "keyframe": keyframe})


def _player(simulation: Any, seed: int) -> Callable[[], Any]:
    """Random controls within their ranges from a seed; random pushes at the bodies where nothing is controlled."""
    draws = np.random.Generator(np.random.PCG64(seed))
    model = simulation.model
    first = iter(({"reset": None, "keyframe": None},))

    def play() -> Any:
        begun = next(first, None)
        if begun is not None:
            return begun
        if not model.nu:
            return {"count": 1, "xfrc_applied": draws.normal(size=6 * model.nbody)}
        limited = model.actuator_ctrllimited.astype(bool)
        low, high = (np.where(limited, model.actuator_ctrlrange[:, side], (-1.0, 1.0)[side]) for side in (0, 1))
        return {"count": 1, "ctrl": draws.uniform(low, high)}

    return play


def _adapt(data: Any, **options: Any) -> MujocoSimulation:
    if not isinstance(data, mujoco.MjData):
        raise NotCapturedError(f"{type(data).__name__} is no mujoco.MjData, which holds the state: record that")
    return MujocoSimulation(data, **options)


ADAPTER = Adapter(NAME, _adapt, RecordedData, player=_player)
