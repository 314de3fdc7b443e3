"""The content of MuJoCo's MjData, as plain arrays that are copied after a step and restored at a load.

The state is mjSTATE_INTEGRATION. With less (the physics alone, or the full physics) the next step starts its solver
from a different guess, or with different forces, and gives different bits. Also captured are the arrays that a step
computes and that an observation or a reward reads later: mj_step moves the positions after it has computed these
arrays, so they cannot be computed from the state. Contacts and the solver's own arrays are not captured: each step
computes them before anything reads them.
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
    """The identity of a compiled model: the hash of its binary."""
    buffer = np.zeros(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, buffer)
    return hashlib.sha256(buffer.tobytes()).hexdigest()


def parts_of_state(model: Any) -> list[tuple[str, int, slice]]:
    """The parts of the integration state that this model has: name, bit, slice of the complete vector."""
    parts, start = [], 0
    bits = sorted((bit.value, name) for name, bit in mujoco.mjtState.__members__.items() if name.startswith(_PREFIX))
    for bit, name in bits:
        if bit & SPECIFICATION == bit and bit & (bit - 1) == 0:
            size = mujoco.mj_stateSize(model, bit)
            if size:
                parts.append((name.removeprefix(_PREFIX).lower(), bit, slice(start, start + size)))
            start += size
    assert start == mujoco.mj_stateSize(model, SPECIFICATION)
    return parts


class Arrays:
    """The arrays of one MjData, as attributes; ``model`` is the hash of their model."""


class Bridge:
    """Copies an MjData to plain arrays and back.

    Attributes:
        arrays: the captured arrays.
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
        """Copy the present content of the data to the arrays."""
        held, vector = self._held, self._vector
        mujoco.mj_getState(self._model, self._data, vector, SPECIFICATION)
        for name, _, place in self._parts:
            held[name][...] = vector[place]
        for name, view in self._derived.items():
            held[name][...] = view
        self._taken += 1
        if self._taken % CONSTANT_CHECK_STEPS == 0:
            self._check_model()

    def _check_model(self) -> None:
        present_hash = model_hash(self._model)
        if present_hash == self.model_hash:
            return
        self.model_hash = self._held["model"] = present_hash
        warnings.warn(
            f"the MjModel has changed in the last {CONSTANT_CHECK_STEPS} steps: it is not part of the state, so a "
            "replay with the original model diverges; change only the MjData during a recording",
            CapturedWarning,
            stacklevel=5,
        )

    def put(self) -> None:
        """Restore the data from the arrays. Raises NotCapturedError if they are of a different model."""
        held, vector = self._held, self._vector
        if held["model"] != self.model_hash:
            raise NotCapturedError(
                f"expected the MuJoCo model {str(held['model'])[:16]}… of the recorded state, "
                f"got {self.model_hash[:16]}…: use the same XML, assets, options and version of MuJoCo"
            )
        for name, _, place in self._parts:
            vector[place] = held[name]
        mujoco.mj_setState(self._model, self._data, vector, SPECIFICATION)
        for name, view in self._derived.items():
            view[...] = held[name]

    def changed(self) -> dict[str, np.ndarray[Any, Any]]:
        """The parts of the state that differ, bit for bit, from the last copy: they were set since then."""
        vector = self._vector
        mujoco.mj_getState(self._model, self._data, vector, SPECIFICATION)
        return {
            name: vector[place].copy()
            for name, _, place in self._parts
            if vector[place].tobytes() != self._held[name].tobytes()
        }

    def set(self, name: str, values: np.ndarray[Any, Any]) -> None:
        """Set one part of the state. Raises ValueError for a name or a size that the model does not have."""
        for part, bit, place in self._parts:
            if part == name and values.shape == (place.stop - place.start,):
                mujoco.mj_setState(self._model, self._data, np.asarray(values, np.float64), bit)
                return
        raise ValueError(f"expected a part of the model's state, got {name!r} of {values.size} numbers")


def bridges_in(attributes: dict[str, Any]) -> list[tuple[str, Bridge]]:
    """A bridge for each MjData among the attributes, by the attribute's name."""
    bridges = []
    for name, value in attributes.items():
        if isinstance(value, mujoco.MjData):
            bridges.append((name, Bridge(value.model, value)))
    return bridges
