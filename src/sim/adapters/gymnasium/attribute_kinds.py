"""The treatment of the attributes of Gymnasium's own classes: what is configuration, drawing, a clock or state.

The caller may draw from the action and observation spaces between the steps, which a replay does not repeat: they are
not saved. Any other space is the environment's own, and its random generator is state as any generator is.
"""

from __future__ import annotations

import re
from typing import Any

import gymnasium
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import VectorEnv

from sim.adapters.capture.native_objects import is_drawing, is_native
from sim.adapters.capture.rng_state import is_generator
from sim.adapters.capture.survey import Classify, Treatment
from sim.adapters.gymnasium.callers_spaces import callers_spaces, is_callers_name
from sim.adapters.gymnasium.last_env_call import ObservationItems
from sim.adapters.gymnasium.layers import OUTPUT_ONLY

# Attributes that no step reads: the configuration, rendering, printed text.
_CONFIGURATION = {
    "spec", "_saved_kwargs", "_cached_spec", "_metadata", "metadata", "render_mode", "mujoco_renderer",
}  # fmt: skip
# Of wrappers. The checker keeps the info of a call, to which an outer wrapper may add the time of the day.
_UNREAD = {
    "PassiveEnvChecker": {
        "checked_reset", "checked_step", "checked_data_reuse", "_previous_data", "checked_render", "close_called",
    },
    "OrderEnforcing": {"_disable_render_order_enforcing"},
}  # fmt: skip
_CLOCKS = {"RecordEpisodeStatistics": {"episode_start_time", "episode_start_times", "time_queue"}}
_CONSTANTS = {"AtariEnv": {"_action_set"}}
_SUB_ENVIRONMENTS = {"envs", "env_fns"}  # Of a vector: each environment in it has layers of its own.
# Attributes in which environments keep their drawing objects; None until the first picture is drawn.
_DRAWING_NAMES = re.compile(
    r"_?(screen|surf|surface|clock|window|viewer|canvas|renderer|font|fig|ax|isopen)|\w*_(surface|imgs?|images?)"
)

TREATMENTS_KEPT = 1 << 12  # Of the attributes of some environments: each keyframe asks for them again.
_TREATMENTS: dict[tuple[type, str, type], Treatment | None] = {}


def classifier_of(env: Any) -> Classify:
    """The treatment of each attribute in an environment and in its wrappers.

    env: the outermost layer, asked for its action and observation spaces whenever there is another space.
    """

    def classify_here(holder: object, name: str, value: Any) -> Treatment | None:
        found = classify(holder, name, value)
        if found == "open" and isinstance(value, spaces.Space) and id(value) in callers_spaces(env):
            return "kept"  # The caller's, under another name.
        return found

    return classify_here


def classify(holder: object, name: str, value: Any) -> Treatment | None:
    """The treatment of an attribute of Gymnasium's own classes; None if unknown. It depends on the types alone."""
    key = (type(holder), name, type(value))
    try:
        return _TREATMENTS[key]
    except KeyError:
        if len(_TREATMENTS) >= TREATMENTS_KEPT:
            _TREATMENTS.clear()
        found = _TREATMENTS[key] = _treatment(holder, name, value)
        return found


def _treatment(holder: object, name: str, value: Any) -> Treatment | None:
    if type(holder) is ObservationItems:
        return None  # Its names are keys, which mean nothing here.
    if type(value) is ObservationItems:
        return "open"
    kind = type(holder).__name__
    if (
        name in _CONFIGURATION
        or kind in OUTPUT_ONLY
        or name in _UNREAD.get(kind, ())
        or name in _CONSTANTS.get(kind, ())
    ):
        return "kept"
    if name in _CLOCKS.get(kind, ()):
        return "clock"
    if name in _SUB_ENVIRONMENTS and isinstance(holder, VectorEnv):
        return "kept"
    if isinstance(holder, spaces.Space):
        return _of_own_space(name, value)
    if isinstance(value, spaces.Space):
        return "kept" if is_callers_name(name) else "open"
    if isinstance(value, EnvSpec | VectorEnv) or is_native(value):
        return "kept"
    if isinstance(value, gymnasium.Env) and isinstance(holder, gymnasium.Wrapper) and name == "env":
        return "kept"  # The next layer. An environment in any other attribute is state as any object is.
    if name == "isopen" or is_drawing(value):
        return "kept"
    return "drawing" if value is None and _DRAWING_NAMES.fullmatch(name) else None


def _of_own_space(name: str, value: Any) -> Treatment | None:
    """Of a space, its generators are state, and those of the spaces in it. Its bounds are configuration."""
    if isinstance(value, spaces.Space):
        return "open"
    return None if name in ("_np_random", "spaces") or is_generator(value) else "kept"
