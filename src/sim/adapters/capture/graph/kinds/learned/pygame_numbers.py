"""Numbers of pygame that games keep as state: rectangles, vectors and colors. Pictures and clocks are no state.

Nothing is imported: an object of these classes exists only where pygame was imported, and a restore needs it, too.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import attrs

from sim.adapters.capture.graph.kinds.kind_protocol import Plain, StrongKind, wrong_data
from sim.adapters.capture.graph.unsavable import UnsavableError


@attrs.frozen
class PygameNumbers(StrongKind):
    """An object that is some numbers.

    Attributes:
        name: of the kind: the module and the class.
        number: the type of its numbers.
        counts: how many of them there may be.
        further: attributes that are numbers as well.
    """

    name: str
    number: type
    counts: tuple[int, ...]
    further: tuple[str, ...] = ()

    def take(self, value: Any) -> tuple[Plain, tuple[Any, ...]]:
        """The numbers. Raises UnsavableError for another count of them."""
        numbers = list(value)
        if len(numbers) not in self.counts:
            raise UnsavableError(f"it has {len(numbers)} numbers", f"use one with {self.counts[-1]}", value)
        return [numbers, [getattr(value, name) for name in self.further]], ()

    def make(self, plain: Plain, parts: Sequence[Any]) -> Any:
        """An object of these numbers. Raises ValueError if pygame was not imported."""
        module, _, name = self.name.rpartition(".")
        made = vars(sys.modules[module]).get(name) if module in sys.modules else None
        if made is None:
            raise ValueError(f"expected {self.name}, which is saved here, but {module} is not imported: import pygame")
        match plain, parts:
            case [list(numbers), list(further)], [] if len(numbers) in self.counts and all(
                type(number) is self.number for number in numbers
            ):
                value = made(*numbers)
                for attribute, number in zip(self.further, further, strict=True):
                    setattr(value, attribute, number)
                return value
        raise wrong_data(self.name)


PYGAME_KINDS = {
    kind.name: kind
    for kind in (
        PygameNumbers("pygame.rect.Rect", int, (4,)),
        PygameNumbers("pygame.rect.FRect", float, (4,)),
        PygameNumbers("pygame.math.Vector2", float, (2,), ("epsilon",)),
        PygameNumbers("pygame.math.Vector3", float, (3,), ("epsilon",)),
        PygameNumbers("pygame.color.Color", int, (4,)),
    )
}
