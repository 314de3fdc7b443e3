"""Objects that cannot be saved at all, each with the reason and the way out, in one line."""

from __future__ import annotations

import types
from typing import Any

from sim.kernel.class_names import package_of

_GENERATOR = (
    "a running generator, whose position Python does not give away: keep what it has reached in attributes, and make it "
    "again from them"
)
_BY_PACKAGE = {
    "envpool": (
        "EnvPool steps its environments in threads of C++ without a way to save them: record gymnasium.make_vec(..., "
        'vectorization_mode="sync") of the same environments'
    ),
    "simpy": (
        "SimPy's processes are running generators, whose position Python does not give away: record the values that "
        "your processes keep, with save(), and a load() that starts the processes again from them"
    ),
}
_GENERATORS = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)


def reason_against(value: Any) -> str | None:
    """The reason why a value cannot be saved, and what to do; None if none is known.

    Nothing of the value is read: its class, and the classes that this one is derived from, decide.
    """
    if isinstance(value, _GENERATORS):
        return _GENERATOR
    for kind in type(value).__mro__:
        reason = _BY_PACKAGE.get(package_of(kind))
        if reason is not None:
            return reason
    return None
