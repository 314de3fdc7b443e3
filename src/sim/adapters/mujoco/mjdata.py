"""The content of MuJoCo's MjData, as plain arrays that are copied after a step and restored at a load.

The state is mjSTATE_INTEGRATION. With less (the physics alone, or the full physics) the next step starts its solver
from a different guess, or with different forces, and gives different bits. Also captured are the arrays that a step
computes and that an observation or a reward reads later: mj_step moves the positions after it has computed these
arrays, so they cannot be computed from the state. Contacts and the solver's own arrays are not captured: each step
computes them before anything reads them.

Some environments change their MjModel in a reset: a door is moved, a target is placed. After each reset the arrays of the
model are compared with those of the model as it was made, and those that differ are part of the state.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np

from sim.adapters.capture.captured_state import CONSTANT_CHECK_STEPS, CapturedWarning
from sim.adapters.interface.adapter_registry import NotCapturedError
from sim.user_warning import warn_user

SPECIFICATION = mujoco.mjtState.mjSTATE_INTEGRATION.value
_PREFIX = "mjSTATE_"
DERIVED = (
    "xpos", "xquat", "xmat", "xipos", "ximat", "xanchor", "xaxis", "geom_xpos", "geom_xmat", "site_xpos", "site_xmat",
    "cam_xpos", "cam_xmat", "light_xpos", "light_xdir", "flexvert_xpos", "subtree_com", "subtree_linvel",
    "subtree_angmom", "cinert", "cvel", "cacc", "cfrc_int", "cfrc_ext", "ten_length", "ten_velocity", "actuator_length",
    "actuator_velocity", "actuator_force", "act_dot", "qacc", "qfrc_actuator", "qfrc_passive", "qfrc_bias",
    "qfrc_constraint", "qfrc_inverse", "sensordata", "energy",
)  # fmt: skip


_MODEL_ASSETS = ("mesh_", "hfield_", "tex_", "skin_", "bvh_", "oct_", "plugin_", "name")  # Large, and never changed.


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


def model_arrays(model: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Views of the arrays of a model and of its options, by name, without its assets."""
    found = {name: getattr(model, name) for name in dir(model) if not name.startswith(("_", *_MODEL_ASSETS))}
    found |= {f"opt.{name}": getattr(model.opt, name) for name in dir(model.opt) if not name.startswith("_")}
    return {name: value for name, value in found.items() if type(value) is np.ndarray and value.size}


class Arrays:
    """The arrays of one MjData, as attributes; ``model`` is the hash of their model.

    ``model_changes`` are the arrays of the model that a reset has changed; it appears with the first of them.
    """


class Bridge:
    """Copies an MjData to plain arrays and back.

    Attributes:
        arrays: the captured arrays.
        model_hash: of the model.
    """

    def __init__(self, model: Any, data: Any) -> None:
        self._model, self._data = model, data
        self._find: Callable[[], Any] | None = None
        self.model_hash = model_hash(model)
        self.arrays = Arrays()
        self._held = vars(self.arrays)
        self._held["model"] = self.model_hash
        self._parts = parts_of_state(model)
        self._vector = np.zeros(mujoco.mj_stateSize(model, SPECIFICATION))
        for name, _, place in self._parts:
            self._held[name] = self._vector[place].copy()
        self._derived = _derived_arrays(data)
        for name, view in self._derived.items():
            self._held[name] = np.array(view)
        self._model_views = model_arrays(model)
        self._model_start = {name: view.copy() for name, view in self._model_views.items()}
        self._present_hash = self.model_hash
        self._taken, self._time = 0, float("-inf")
        self.take()

    def take(self) -> None:
        """Copy the present content of the data to the arrays."""
        self._turn_to_present()
        held, vector = self._held, self._vector
        mujoco.mj_getState(self._model, self._data, vector, SPECIFICATION)
        for name, _, place in self._parts:
            held[name][...] = vector[place]
        for name, view in self._derived.items():
            held[name][...] = view
        time, self._time = self._time, self._data.time
        if self._time <= time:  # There was a reset.
            self._take_model()
        self._taken += 1
        if self._taken % CONSTANT_CHECK_STEPS == 0:
            self._check_model()

    def follow(self, find: Callable[[], Any]) -> None:
        """Copy from now on what find returns: the owner may make its data again."""
        self._find = find

    def _turn_to_present(self) -> None:
        """Turn to the data that the owner has now. Raises NotCapturedError if it is of a model of different sizes."""
        if self._find is None:
            return
        data = self._find()
        if data is self._data:
            return
        if not isinstance(data, mujoco.MjData):
            raise NotCapturedError(f"expected the MjData of the recorded environment, got {type(data).__name__}")
        model = data.model
        views, derived = model_arrays(model), _derived_arrays(data)
        if _shapes(views) != _shapes(self._model_start) or _shapes(derived) != _shapes(self._derived):
            raise NotCapturedError(
                "the environment has made its MjModel again, with a different number of parts: only the values in a "
                "model may differ from episode to episode. Choose level='inputs_only'"
            )
        self._model, self._data, self._time = model, data, float("inf")  # As after a reset.
        self._model_views, self._derived = views, derived

    def _take_model(self) -> None:
        changes = {
            name: view.copy()
            for name, view in self._model_views.items()
            if view.tobytes() != self._model_start[name].tobytes()
        }
        held = self._held.get("model_changes")
        if held is not None and _bytes_of(held) == _bytes_of(changes):
            return  # The same objects stay: taking the state twice changes nothing.
        if changes or held is not None:
            self._held["model_changes"] = changes
            self._present_hash = model_hash(self._model)

    def _check_model(self) -> None:
        present_hash = model_hash(self._model)
        if present_hash == self._present_hash:
            return
        self.model_hash = self._held["model"] = self._present_hash = present_hash
        warn_user(
            f"the MjModel has changed in the last {CONSTANT_CHECK_STEPS} steps: it is not part of the state between "
            "resets, so a replay with the original model diverges; change the model in a reset, or only the MjData",
            CapturedWarning,
        )

    def put(self) -> None:
        """Restore the data from the arrays. Raises NotCapturedError if they are of a different model."""
        self._turn_to_present()
        held, vector = self._held, self._vector
        if held["model"] != self.model_hash:
            raise NotCapturedError(
                f"expected the MuJoCo model {str(held['model'])[:16]}… of the recorded state, "
                f"got {self.model_hash[:16]}…: use the same XML, assets, options and version of MuJoCo"
            )
        changes = held.get("model_changes", {})
        for name, view in self._model_views.items():
            view[...] = changes.get(name, self._model_start[name])
        for name, _, place in self._parts:
            vector[place] = held[name]
        mujoco.mj_setState(self._model, self._data, vector, SPECIFICATION)
        for name, view in self._derived.items():
            view[...] = held[name]
        self._time = self._data.time
        self._present_hash = model_hash(self._model) if changes else self.model_hash

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
    return [
        (name, Bridge(value.model, value)) for name, value in attributes.items() if isinstance(value, mujoco.MjData)
    ]


def _derived_arrays(data: Any) -> dict[str, np.ndarray[Any, Any]]:
    return {name: view for name in DERIVED if (view := getattr(data, name, None)) is not None and view.size}


def _bytes_of(arrays: dict[str, Any]) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in arrays.items()}


def _shapes(arrays: dict[str, np.ndarray[Any, Any]]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in arrays.items()}
