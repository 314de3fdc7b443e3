"""A member of an enumeration as a condition sees it: its name is recorded, its value is in its class, if that is loaded."""

from __future__ import annotations

import enum
import operator
import sys
from collections.abc import Callable
from typing import Any

import attrs

from replayer.search.search_errors import OtherKindError
from sim.kernel.class_names import module_of

_OWN = "."  # Stands on a tape for the module of the simulation's own class.
NAMES_SHOWN = 8  # In a message.

FindClass = Callable[[str], type[enum.Enum] | None]  # From the name of a class on a tape.


@attrs.frozen(eq=False, repr=False)
class MemberValue:
    """A member of an enumeration.

    Attributes:
        kind: the name of its class, without its module.
        name: of the member; "" for members of a flag together.
        value: of members together; None for a single one, whose class has it.
        cls: the class; None if it is not loaded.
    """

    kind: str
    name: str
    value: Any = None
    cls: type[enum.Enum] | None = None

    @classmethod
    def of(cls, member: enum.Enum) -> MemberValue:
        """A member that a live object has, as a tape has it."""
        kind = type(member)
        name = str(member.name) if member.name in kind.__members__ else ""
        return cls(kind.__qualname__.rpartition(".")[2], name, None if name else member.value)

    def __repr__(self) -> str:
        return f"{self.kind}.{self.name}" if self.name else f"{self.kind}({self.value!r})"

    def __bool__(self) -> bool:
        raise OtherKindError(f"{self} is no condition: compare it with == or !=")

    def plain(self) -> Any:
        """Its value. Raises OtherKindError if its class is not loaded."""
        if not self.name:
            return self.value
        if self.cls is None:
            raise OtherKindError(f"the value of {self} is not known here: compare it with a name, == {self.name!r}")
        return self.cls.__members__[self.name].value

    def number(self) -> int | float:
        """Its value, of an enumeration of numbers. Raises OtherKindError for others."""
        value = self.plain()
        if self.cls is None or not issubclass(self.cls, int | float):
            raise OtherKindError(f"members of {self.kind} are no numbers: compare them with == and !=")
        return value  # type: ignore[no-any-return]

    def equals(self, other: Any) -> bool:
        """Return True for its name, with or without its class, and for its value. Raises OtherKindError if that is not known.

        A text that is neither the name nor the value of any member is a mistake, and not another value.
        """
        if isinstance(other, MemberValue):
            return self._equals_member(other)
        if not isinstance(other, str):
            return bool(self.plain() == other)
        if other in (repr(self), repr(self).rpartition(":")[2]):
            return True
        name = other.removeprefix(f"{self.kind}.")
        if self.cls is None:
            return self.name == name
        members = self.cls.__members__
        by_value = [one for one, member in members.items() if member.value == other]
        if name not in members and not by_value:
            raise OtherKindError(f"{self.kind} has no member {other!r}; it has {_listed(list(members))}")
        if name in members and name == other and by_value and members[by_value[0]] is not members[name]:
            raise OtherKindError(
                f"{other!r} is the name of one member of {self.kind} and the value of another: say '{self.kind}.…'"
            )
        wanted = members[name] if name in members else members[by_value[0]]
        return bool(self.name) and members[self.name] is wanted

    def _equals_member(self, other: MemberValue) -> bool:
        if self.kind == other.kind:
            return repr(self) == repr(other)
        if any(one.cls is None or not issubclass(one.cls, int | float | str) for one in (self, other)):
            return False  # As in Python, where members of two enumerations are equal only by numbers and texts.
        return bool(self.plain() == other.plain())


def compared_members(test: Callable[[Any, Any], Any], one: Any, other: Any) -> bool:
    """Compare two values of which one at least is a member. Raises OtherKindError if they cannot be compared."""
    if test in (operator.eq, operator.ne):
        member, value = (one, other) if isinstance(one, MemberValue) else (other, one)
        return bool(member.equals(value)) is (test is operator.eq)
    numbers = [value.number() if isinstance(value, MemberValue) else value for value in (one, other)]
    if any(isinstance(value, str) for value in numbers):
        raise OtherKindError("texts and members of enumerations can be compared with == and != only")
    return bool(test(*numbers))


def loaded_classes(layers: list[Any]) -> FindClass:
    """A function that finds enumerations by their names on a tape. Nothing is imported.

    layers: the recorded object, and those that it wraps.
    """
    own = [module_of(type(layer)) for layer in reversed(layers)]  # The class of the innermost names the module ".".

    def find(name: str) -> type[enum.Enum] | None:
        module, _, qualname = name.partition(":")
        for one in own if module == _OWN else [module]:
            found: Any = sys.modules.get(one)
            for part in qualname.split("."):
                found = None if found is None or not hasattr(found, "__dict__") else vars(found).get(part)
            if isinstance(found, type) and issubclass(found, enum.Enum):
                return found
        return None

    return find


def _listed(names: list[str]) -> str:
    return ", ".join(names[:NAMES_SHOWN]) + (", …" if len(names) > NAMES_SHOWN else "")
