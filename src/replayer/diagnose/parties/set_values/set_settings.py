"""In a party's process: what its code has set for the whole process before the step, and the same of another party put in place.

Besides settings of libraries: variables of the environment, the time zone, and the states of random generators. None of these
is given from outside: a factory may set them, or the import of a module.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from recorder.processes.seeds.process_generators import (
    NUMBAS,
    NUMPYS,
    PYTHONS,
    TORCHS,
    TWISTER,
    States,
    all_states,
    is_same_state,
    is_seeded_between,
    put_states,
)
from replayer.diagnose.explain.foreign.unseen_draws import shown_generator
from replayer.diagnose.explain.values.process_settings import (
    Settings,
    process_setting,
    process_settings,
    set_process_settings,
)

ZONE = "the time zone (TZ, time.tzset())"
GENERATORS = {
    shown_generator(name): name for name in (PYTHONS, NUMPYS, *NUMBAS, TORCHS)
}  # By the names of their settings.
_BEGAN = dict(os.environ)  # This is loaded before the user's code.
_VARIABLE = 'os.environ["', '"]'
_YEAR_S, _HALF_S = 31_556_952, 15_778_476
_MOMENTS = [
    year * _YEAR_S + half for year in range(0, 66, 6) for half in (0, _HALF_S)
]  # 1970 to 2030, in summer and in winter.
_SHOWN_MOMENTS = 1_704_067_200, 1_719_792_000  # In January and in July of 2024.
_DIGEST_BYTES = 4


def settings_here() -> Settings:
    """All of them in this process, as plain data: of variables, those that it has changed itself."""
    changed = [name for name in {**_BEGAN, **os.environ} if os.environ.get(name) != _BEGAN.get(name) and name != "TZ"]
    variables = {_VARIABLE[0] + name + _VARIABLE[1]: os.environ.get(name) for name in changed}
    return process_settings() | {ZONE: _zone()} | variables | generators_here()


def generators_here() -> Settings:
    """The states of the random generators that can be put in place elsewhere."""
    states = all_states()
    plain = {shown: _plain(states[name]) for shown, name in GENERATORS.items() if name in states}
    return {shown: state for shown, state in plain.items() if state is not None}


def put_settings(settings: Mapping[str, Any]) -> None:
    """Put some of them in place. Raises ValueError for a value that is not possible here."""
    own = [name for name in settings if name == ZONE or name in GENERATORS or variable_of(name)]
    set_process_settings({name: value for name, value in settings.items() if name not in own})
    for name in own:
        if name == ZONE:
            _put_zone(*settings[name])
        elif name in GENERATORS:
            _put_generator(name, settings[name])
        else:
            _put_variable(variable_of(name), settings[name])


def variable_of(setting: str) -> str:
    """The name of the environment's variable that a setting is; empty for another setting."""
    begins, ends = _VARIABLE
    is_variable = setting.startswith(begins) and setting.endswith(ends)
    return setting[len(begins) : -len(ends)] if is_variable else ""


def watched_setting(name: str) -> Any:
    """One of the settings as it is followed while code runs; see is_set_between."""
    if name == ZONE:
        return _zone()
    if name in GENERATORS:
        return all_states([GENERATORS[name]]).get(GENERATORS[name])
    return os.environ.get(variable_of(name)) if variable_of(name) else process_setting(name)


def is_set_between(name: str, before: Any, after: Any) -> bool:
    """Return True if code has set it between two looks: a generator also changes with each draw from it.

    Of the generator of PyTorch seeds and draws are not told apart: it is never said to be set.
    """
    if name not in GENERATORS:
        return bool(before != after)
    if before is None or after is None or GENERATORS[name] == TORCHS or is_same_state(before, after):
        return False
    if GENERATORS[name] in NUMBAS:
        before, after = ((TWISTER, words, position) for position, words in (before, after))
    return is_seeded_between(before, after)


def setting_texts(name: str, pair: Sequence[Any]) -> tuple[str, str] | None:
    """Two values of the time zone or of a generator for people; None for another setting."""
    if name == ZONE:
        zones = ("TZ not set" if zone[0] is None else f"TZ={zone[0]}" for zone in pair)
        first, second = (f"{variable}, in use: {zone[2]}" for variable, zone in zip(zones, pair, strict=True))
        return first, second
    if name in GENERATORS:
        first, second = (f"state {_digest(state)}" for state in pair)
        return first, second
    return None


# --- the time zone


def _zone() -> list[Any]:
    """TZ, a digest of the zone in use, which may be another one, and that zone for people."""
    local = [time.localtime(moment) for moment in (*_MOMENTS, *_SHOWN_MOMENTS)]
    offsets = [(one.tm_zone, one.tm_gmtoff) for one in local]
    shown = dict.fromkeys(f"{name} UTC{offset / 3600:+g}" for name, offset in offsets[-len(_SHOWN_MOMENTS) :])
    return [os.environ.get("TZ"), _digest(offsets), "/".join(shown)]


def _put_zone(variable: str | None, digest: str, shown: str) -> None:
    """Set TZ, and let the zone be in use that was: where code has set TZ alone, it is the one with which the process began."""
    for in_use in (variable, _BEGAN.get("TZ")):
        _put_variable("TZ", in_use)
        if hasattr(time, "tzset"):
            time.tzset()
        _put_variable("TZ", variable)
        if _zone()[1] == digest:
            return
    raise ValueError(f"the time zone {shown} cannot be set here")


def _put_variable(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


# --- random generators


def _put_generator(name: str, plain: Any) -> None:
    generator = GENERATORS[name]
    if generator not in all_states([generator]):
        raise ValueError(f"this process does not have {name}")
    put_states(States({generator: _from_plain(generator, plain)}))


def _plain(state: Any) -> Any:
    """A state as plain data; None for one of a generator that a program has put in the place of NumPy's."""
    if isinstance(state, tuple | list):
        parts = [_plain(one) for one in state]
        return parts if all(old is None or new is not None for old, new in zip(state, parts, strict=True)) else None
    if isinstance(state, np.ndarray):
        return state.tolist()
    if isinstance(state, np.generic):
        return state.item()
    return state if isinstance(state, int | float | str | bytes | None) else None


def _from_plain(generator: str, plain: Any) -> Any:
    if generator == NUMPYS:
        name, words, *rest = plain
        return name, np.array(words, np.uint32), *rest
    return tuple(tuple(one) if isinstance(one, list) and generator == PYTHONS else one for one in plain)


def _digest(value: Any) -> str:
    return blake2b(repr(value).encode(), digest_size=_DIGEST_BYTES).hexdigest()
