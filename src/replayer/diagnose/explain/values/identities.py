"""Compare which names of a simulation lead to one object, in two variants before the step."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import attrs

from recorder.ambient.ambient_diff import NEVER_ALIASES
from recorder.ambient.leaf_text import name_of
from recorder.ambient.object_walk import take_instance
from replayer.diagnose.explain.cause import Cause, is_save
from sim.kernel.simulation import Simulation

OBJECTS_MAX = 5_000  # Of a simulation; with more, nothing is compared.
SPLIT, JOINED = "one object in A, two in B", "two objects in A, one in B"

Identities = dict[str, str]  # By name, the first name that leads to the same object.


@attrs.frozen
class DifferingIdentity:
    """Two names that lead to one object in one of two variants, and to two in the other.

    Attributes:
        names: both.
        how: SPLIT or JOINED.
    """

    names: tuple[str, str]
    how: str

    def __str__(self) -> str:
        return f"{' and '.join(self.names)}: {self.how}"

    def is_cause(self, cause: Cause) -> bool:
        """Return True if the line names one of the two, and changes a value that is, or holds, the other.

        Or if both are one attribute of two objects, and the line changes this attribute of its own object.
        """
        if cause.kind not in {"line", "unseen", "outside"} or cause.value is None:
            return False
        attributes = {name.rpartition(".")[2] for name in self.names}
        if (
            len(attributes) == 1
            and cause.value.name == f"self.{attributes.pop()}"
            and not is_save(cause.place.function)
        ):
            return True
        first, second = (re.split(r"[.\[]", name.partition(".")[2])[0] for name in self.names)
        return any(
            cause.value.name == f"self.{one}"
            and re.search(rf"\bself\.{re.escape(other)}\b", cause.place.text) is not None
            for one, other in ((first, second), (second, first))
            if one and other and one != other
        )


def identities_of(simulation: Simulation) -> Identities:
    """The names of the objects that a simulation holds; empty if there are too many."""
    ambient = take_instance(simulation)
    if len(ambient.objects) + len(ambient.aliases) > OBJECTS_MAX:
        return {}
    names = {path: name_of(path) for path in (*ambient.objects, *ambient.aliases)}
    identities = {}
    for path, name in names.items():
        first = ambient.aliases.get(path, path)
        if type(ambient.objects.get(first)).__name__ not in NEVER_ALIASES:
            identities[name] = names.get(first, name)
    return identities


def differing_identities(first: Mapping[str, str], second: Mapping[str, str]) -> Iterator[DifferingIdentity]:
    """Names that lead to one object in one variant, and to two in the other."""
    for one, other, how in ((first, second, SPLIT), (second, first, JOINED)):
        for name, same in one.items():
            if name != same and name in other and same in other and other[name] != other[same]:
                yield DifferingIdentity((same, name), how)
