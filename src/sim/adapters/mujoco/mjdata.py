"""What MuJoCo's MjData holds, as plain arrays that are taken after a step and put back at a load.

The state is mjSTATE_INTEGRATION: with less (the physics alone, or the full physics) the next step starts its solver
from another guess, or with other forces, and gives other bits. Beside it are the arrays that a step computes and an
observation or a reward reads later: mj_step moves the positions after it has computed them, so they cannot be computed
from the state. Contacts and the solver's own arrays are not here: each step computes them before anything reads them.
"""

from __future__ import annotations

import hashlib
import warnings
from typing import Any

import mujoco
import numpy as np

from sim.adapters.capture.captured_state import CONSTANT_CHECK_STEPS, CapturedWarning
from sim.adapters.interface.adapter_registry import NotCapturedError

SPECIFICATION = mujoco.mjtState.mjSTATE_INTEGRATION.value
_PREFIX = "mjSTATE_"
DERIVED = (
    "xpos", "xquat", "xmat", "xipos", "ximat", "xanchor", "xaxis", "geom_xpos", "geom_xmat", "site_xpos", "site_xmat",
    "cam_xpos", "cam_xmat", "light_xpos", "light_xdir", "flexvert_xpos", "subtree_com", "subtree_linvel",
    "subtree_angmom", "cinert", "cvel", "cacc", "cfrc_int", "cfrc_ext", "ten_length", "ten_velocity", "actuator_length",
    "actuator_velocity", "actuator_force", "act_dot", "qacc", "qfrc_actuator", "qfrc_passive", "qfrc_bias",
    "qfrc_constraint", "qfrc_inverse", "sensordata", "energy",
)  # fmt: skip


def model_hash(model: Any) -> str:
    """What a compiled model is known by: the hash of its binary."""
    buffer = np.zeros(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, buffer)
    return hashlib.sha256(buffer.tobytes()).hexdigest()


def parts_of_state(model: Any) -> list[tuple[str, int, slice]]:
    """The parts of the integration state that this model has: name, bit, place in the whole vector."""
    found, start = [], 0
    bits = sorted((one.value, name) for name, one in mujoco.mjtState.__members__.items() if name.startswith(_PREFIX))
    for bit, name in bits:
        if bit & SPECIFICATION == bit and bit & (bit - 1) == 0:
            size = mujoco.mj_stateSize(model, bit)
            if size:
                found.append((name.removeprefix(_PREFIX).lower(), bit, slice(start, start + size)))
            start += size
    assert start == mujoco.mj_stateSize(model, SPECIFICATION)
    return found


class Arrays:
    """The arrays of one MjData, as attributes; ``model`` is the hash of the model that they are of."""


class Bridge:
    """Between an MjData and plain arrays.

    Attributes:
        arrays: what is captured.
        model_hash: of the model.
    """

    def __init__(self, model: Any, data: Any) -> None:
        self._model, self._data = model, data
        self.model_hash = model_hash(model)
        self.arrays = Arrays()
        self._held = vars(self.arrays)
        self._held["model"] = self.model_hash
        self._parts = parts_of_state(model)
        self._vector = np.zeros(mujoco.mj_stateSize(model, SPECIFICATION))
        for name, _, place in self._parts:
            self._held[name] = self._vector[place].copy()
        self._derived = {
            name: view for name in DERIVED if (view := getattr(data, name, None)) is not None and view.size
        }
        for name, view in self._derived.items():
            self._held[name] = np.array(view)
        self._taken = 0
        self.take()

    def take(self) -> None:
        """Take down what the data holds now."""
        held, vector = self._held, self._vector
        mujoco.mj_getState(self._model, self._data, vector, SPECIFICATION)
        for name, _, place in self._parts:
            held[name][...] = vector[place]
        for name, view in self._derived.items():
            held[name][...] = view
        self._taken += 1
        if self._taken % CONSTANT_CHECK_STEPS == 0:
            self._look_at_model()

    def _look_at_model(self) -> None:
        now = model_hash(self._model)
        if now == self.model_hash:
            return
        self.model_hash = self._held["model"] = now
        warnings.warn(
            f"the MjModel has changed in the last {CONSTANT_CHECK_STEPS} steps: it is no part of the state, so a replay "
            "with the model as it was made goes another way",
            CapturedWarning,
            stacklevel=5,
        )

    def put(self) -> None:
        """Make the data what the arrays say. Raises NotCapturedError if they are of another model."""
        held, vector = self._held, self._vector
        if held["model"] != self.model_hash:
            raise NotCapturedError(
                f"the state is one of the MuJoCo model {str(held['model'])[:16]}…, and this is {self.model_hash[:16]}…: "
                "another XML, other assets or options, or another version of MuJoCo"
            )
        for name, _, place in self._parts:
            vector[place] = held[name]
        mujoco.mj_setState(self._model, self._data, vector, SPECIFICATION)
        for name, view in self._derived.items():
            view[...] = held[name]

    def changed(self) -> dict[str, np.ndarray[Any, Any]]:
        """The parts of the state that are not, bit for bit, what was taken last: somebody has set them since."""
        vector = self._vector
        mujoco.mj_getState(self._model, self._data, vector, SPECIFICATION)
        return {
            name: vector[place].copy()
            for name, _, place in self._parts
            if vector[place].tobytes() != self._held[name].tobytes()
        }

    def set(self, name: str, values: np.ndarray[Any, Any]) -> None:
        """Set one part of the state. Raises ValueError for a name or a size that the model has not."""
        for own, bit, place in self._parts:
            if own == name and values.shape == (place.stop - place.start,):
                mujoco.mj_setState(self._model, self._data, np.asarray(values, np.float64), bit)
                return
        raise ValueError(f"the model has no {name!r} of {values.size} numbers in its state")


def bridges_in(attributes: dict[str, Any]) -> list[tuple[str, Bridge]]:
    """A bridge for each MjData among some attributes, by the attribute's name."""
    found = []
    for name, value in attributes.items():
        if isinstance(value, mujoco.MjData):
            found.append((name, Bridge(value.model, value)))
    return found
