"""The names of traced values, as people write them."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from replayer.diagnose.explain.line_pairs.taken_defaults import DEFAULT
from replayer.diagnose.explain.step_trace import Record

_OWN = "self"


def shown_name(
    name: str, record: Record, words: AbstractSet[str], own: str = _OWN, owners: Mapping[int, str] | None = None
) -> str:
    """A value's name for people. record: of a line that it belongs to. words: the names that the line reads.

    own: what the function calls the object whose attributes these are, its first parameter; empty without one.
    owners: the names of objects before the step, by their numbers.
    """
    prefix, _, rest = name.partition(":")
    if not name:
        return "the branch taken"
    if prefix == "s":
        return f"field {rest}"
    if prefix.startswith("o"):
        return _attribute(prefix, rest, record, words, own, owners or {})
    if default := DEFAULT.match(name):
        return f"the default of {default['kind']}.{default['name']}"
    if prefix.startswith("c"):
        return f"{prefix[1:]}.{rest}"
    if prefix == "g":
        return rest.replace(":", ".")
    return f"the result of {record.function}" if rest == "return" else rest


def _attribute(
    prefix: str, attribute: str, record: Record, words: AbstractSet[str], own: str, owners: Mapping[int, str]
) -> str:
    """An attribute as the line writes it: of another object than the one whose method runs, self is not its name."""
    ends = sorted(word for word in words if "." in word and word.rpartition(".")[2] == attribute)
    named = f"{own}.{attribute}" if own else attribute
    if named in ends or (prefix == f"o{record.owner}" and (own or not ends)):
        return named
    if not ends and own != _OWN:  # A function beside the classes: its first parameter may be any object.
        holder = owners.get(int(prefix[1:])) if prefix[1:].isdecimal() else None
        return f"{holder}.{attribute}" if holder else attribute
    return ends[0] if ends else named
