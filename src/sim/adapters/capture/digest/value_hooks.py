"""The hooks by which the values of a captured simulation are digested, compared and kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sim.adapters.capture.digest.value_digest import ValueSubject, digest_values, first_difference, image_of
from sim.adapters.capture.digest.value_image import ValueImage


class DigestsValues:
    """The base of a simulation that names the objects whose values count."""

    _not_read: tuple[str, ...] = ()

    def value_subject(self) -> ValueSubject:
        """The objects whose values are digested."""
        raise NotImplementedError

    def value_digest(self) -> bytes:
        """See sim.kernel.hooks.HasValueDigest."""
        made = digest_values(self.value_subject())
        self._not_read = tuple(name.removeprefix(".:").replace(":", ".") for name in made.not_looked_at)
        return made.digest

    def value_difference(self, other: Any) -> str | None:
        """See sim.kernel.hooks.ComparesValues."""
        theirs = other if isinstance(other, ValueImage) else other.value_subject()
        return first_difference(self.value_subject(), theirs)

    def kept_values(self) -> ValueImage:
        """See sim.kernel.hooks.KeepsValues."""
        return image_of(self.value_subject())

    def watch_values(self) -> Callable[[], str | None]:
        """See sim.kernel.hooks.WatchesValues."""
        kept = self.kept_values()
        return lambda: self.value_difference(kept)

    def values_not_read(self) -> Sequence[str]:
        """See sim.kernel.hooks.NamesUnreadValues."""
        return self._not_read
