"""The names of traced values, as people write them."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from replayer.diagnose.explain.line_pairs.taken_defaults import DEFAULT
from replayer.diagnose.explain.step_trace import Record

_OWN = "self"


def shown_name(name: str, record: Record, words: AbstractSet[str]) -> str:
    """A value's name for people. record: of a line that it belongs to. words: the names that the line reads."""
    prefix, _, rest = name.partition(":")
    if not name:
        return "the branch taken"
    if prefix == "s":
        return f"field {rest}"
    if prefix.startswith("o"):
        return _attribute(prefix, rest, record, words)
    if default := DEFAULT.match(name):
        return f"the default of {default['kind']}.{default['name']}"
    if prefix.startswith("c"):
        return f"{prefix[1:]}.{rest}"
    if prefix == "g":
        return rest.replace(":", ".")
    return f"the result of {record.function}" if rest == "return" else rest


def _attribute(prefix: str, attribute: str, record: Record, words: AbstractSet[str]) -> str:
    """An attribute as the line writes it: of another object than the one whose method runs, self is not its name."""
    ends = sorted(word for word in words if "." in word and word.rpartition(".")[2] == attribute)
    is_own = prefix == f"o{record.owner}" or not ends or f"{_OWN}.{attribute}" in ends
    return f"{_OWN}.{attribute}" if is_own else ends[0]
