"""Record MuJoCo: an MjData, whose model is identified by a hash; values set between two steps are the inputs.

One tick is one step, or the requested number of steps, or a reset. Each part of the state that was set since the last
tick is recorded as an input: controls, forces, positions. ``ctrl`` is always recorded.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterable
from typing import Any

import mujoco
import numpy as np

from sim.adapters.capture.recapture import ProvedSimulation, ProvedState
from sim.adapters.capture.unpack import parts_of
from sim.adapters.interface.adapter_registry import Adapter, NotCapturedError
from sim.adapters.interface.capture_report import Report
from sim.adapters.interface.proxy import OWN_NAMES, RecordedProxy, make_proxy
from sim.adapters.mujoco.mjdata import Bridge
from sim.kernel.exactness import Level, level_from
from sim.kernel.state import State

NAME = "mujoco"
LAYER = "data"


class MujocoSimulation(ProvedSimulation):
    """An MjData as a simulation.

    Attributes:
        data, model: the MjData and its MjModel.
        state: mjSTATE_INTEGRATION, part by part, and the derived arrays of the last step.
        level: EXACT.
    """

    def __init__(
        self, data: Any, *, level: Level | str | None = None, pickler: Any = None, ignore: Iterable[str] = ()
    ) -> None:
        """Survey the data. ignore: names of parts that no step reads. Raises ValueError for any level but exact."""
        self.level = level_from(level)
        if self.level is not Level.EXACT:
            raise ValueError(
                f"level: expected 'exact', the only level of MuJoCo, whose state can be saved, got {self.level.value!r}"
            )
        self.data, self.model = data, data.model
        self.bridge = Bridge(self.model, data)
        self._ignored = tuple(ignore)
        self._captured = ProvedState(
            [(LAYER, self.bridge.arrays)], lambda *_: None, ignored=self._ignored, pickler=pickler
        )
        self.state: State = self._captured.state

    def step(self, inputs: Any) -> None:
        """Reset, or set the values of the inputs and step. Raises ValueError for inputs of a different simulation."""
        match inputs:
            case {"reset": None, "keyframe": int() | None as keyframe}:
                self._reset(keyframe)
            case {"count": int(count), **parts} if count > 0:
                for name, values in parts.items():
                    self.bridge.set(str(name), np.asarray(values, np.float64))
                mujoco.mj_step(self.model, self.data, nstep=count)
            case _:
                raise ValueError(
                    "expected the inputs of a MuJoCo simulation: a reset, or a count and parts of the state"
                )
        self._retake()
        self._captured.pack()
        self.state = self._captured.state

    def _retake(self) -> None:
        self.bridge.take()

    def _reset(self, keyframe: int | None) -> None:
        if keyframe is None:
            mujoco.mj_resetData(self.model, self.data)
        elif 0 <= keyframe < self.model.nkey:
            mujoco.mj_resetDataKeyframe(self.model, self.data, keyframe)
        else:
            raise ValueError(f"keyframe: expected a number below {self.model.nkey}, got {keyframe}")
        mujoco.mj_forward(self.model, self.data)

    def inputs_now(self, count: int) -> dict[str, Any]:
        """The inputs of the next tick: the values that were set since the last tick."""
        changed = self.bridge.changed()
        if self.model.nu:
            changed["ctrl"] = self.data.ctrl.copy()
        return {"count": count, **changed}

    def after_restore(self) -> None:
        """Restore the data from the arena. Raises NotCapturedError if the arena is of a different model."""
        self._captured.state = self.state
        self._captured.unpack()
        self.bridge.put()

    @property
    def subject(self) -> Any:
        """The data."""
        return self.data

    def report(self) -> Report:
        """The captured parts."""
        notes = (f"model {self.bridge.model_hash[:16]}", "contacts are computed anew at each step")
        return Report(NAME, "MjData", self.level, parts_of(self._captured.structure), notes, self._ignored)

    @property
    def adapter(self) -> dict[str, Any]:
        """The description of the simulation for the tape."""
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
    """A proxy for a recorded MjData: its step is recorded, all else is the data's own."""

    __slots__ = ("_simulation", "data", "model")
    _recording_names = (*OWN_NAMES, "data", "model")

    def __init__(self, simulation: MujocoSimulation, tape: Any) -> None:
        """tape: its recorder, with step(inputs) and close(outcome)."""
        super().__init__(simulation.data, tape)
        object.__setattr__(self, "data", simulation.data)
        object.__setattr__(self, "model", simulation.model)
        object.__setattr__(self, "_simulation", simulation)

    def step(self, ctrl: Any = None, count: int = 1) -> None:
        """Call mj_step count times, recorded with all values set in the data since the last tick. ctrl: set first."""
        if ctrl is not None:
            self.data.ctrl[:] = ctrl
        self.tape.step(self._simulation.inputs_now(count))

    def reset(self, keyframe: int | None = None) -> None:
        """Reset the data, or set it to a keyframe of the model, and call mj_forward; recorded: an episode begins."""
        self.tape.step({"reset": None, "keyframe": keyframe})


def _player(simulation: Any, seed: int) -> Callable[[], Any]:
    """Random controls within their ranges from a seed; random pushes at the bodies of a model without controls."""
    random = np.random.Generator(np.random.PCG64(seed))
    model = simulation.model
    first = iter(({"reset": None, "keyframe": None},))

    def play() -> Any:
        reset = next(first, None)
        if reset is not None:
            return reset
        if not model.nu:
            return {"count": 1, "xfrc_applied": random.normal(size=6 * model.nbody)}
        limited = model.actuator_ctrllimited.astype(bool)
        low, high = (np.where(limited, model.actuator_ctrlrange[:, side], (-1.0, 1.0)[side]) for side in (0, 1))
        return {"count": 1, "ctrl": random.uniform(low, high)}

    return play


def _adapt(data: Any, **options: Any) -> MujocoSimulation:
    if not isinstance(data, mujoco.MjData):
        raise NotCapturedError(
            f"expected a mujoco.MjData, which holds the state, got {type(data).__name__}: record the MjData"
        )
    return MujocoSimulation(data, **options)


def _door(simulation: MujocoSimulation, tape: Any) -> Any:
    return make_proxy(RecordedData, simulation.data, simulation, tape)


ADAPTER = Adapter(NAME, _adapt, _door, player=_player, has_short_steps=True)
