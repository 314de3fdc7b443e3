"""Names of values in a state: a field, or the path of a value in recorded objects, with indices."""

from __future__ import annotations

from typing import Literal

import attrs


@attrs.frozen
class NameStep:
    """One step of a name.

    Attributes:
        value: the name, the attribute, the key of a dict or the index; of any other key the text that is printed of it.
        kind: which of these it is; "printed" is the key of a text, see printed_keys; "every" stands for all items of a list: ``units[:].hp``.
    """

    value: str | int
    kind: Literal["name", "attribute", "key", "index", "printed", "every"]

    def __str__(self) -> str:
        match self.kind:
            case "name":
                return str(self.value)
            case "attribute":
                return f".{self.value}"
            case "every":
                return "[:]"
            case "printed":
                return f"[{self.value}]"
        return f"[{self.value!r}]"


EVERY = NameStep(":", "every")


@attrs.frozen
class ValueName:
    """A name as it was written, in steps: ``plants.energy[3]``, ``units[14].hp``, ``telemetry.births``."""

    steps: tuple[NameStep, ...]

    def __str__(self) -> str:
        return "".join(map(str, self.steps))

    @property
    def dotted_length(self) -> int:
        """The number of steps at the start that are names and attributes: together they may name a field."""
        kinds = [step.kind for step in self.steps]
        return next((number for number, kind in enumerate(kinds) if kind not in ("name", "attribute")), len(kinds))
