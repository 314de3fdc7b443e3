"""The recorded object in a state: values by their paths, without its classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from recorder.exit_codes import UsageError
from replayer.desync.object_diff import objects_in
from replayer.tape.fields import ensure_fields
from replayer.value_text import describe_field, field_lines, plain_text, state_summary
from sim.kernel.registry import Config, World
from sim.kernel.state import Snapshot

if TYPE_CHECKING:
    pass


class ShownState:
    """A state as ``replay seek`` shows it: the objects in it by paths, its other fields by their names.

    Attributes:
        fields: those of the requested names that are fields of the state.
    """

    def __init__(self, snapshot: Snapshot, requested: Sequence[str]) -> None:
        """requested: names of fields, or paths of values in the objects. Raises UsageError for one that is neither."""
        self._snapshot, self._requested = snapshot, requested
        self._tree = objects_in(snapshot)
        self.fields = [name for name in requested if self._tree is None or name in list(snapshot)]
        ensure_fields(snapshot, self.fields)
        self._found = {name: self._find(name) for name in requested if name not in self.fields}

    def _find(self, path: str) -> tuple[str, Any]:
        assert self._tree is not None
        found = self._tree.find(path)
        if found is None:
            attributes = ", ".join(plain_text(entry.step) for entry in self._tree.entries)
            raise UsageError(f"no attribute or field {path!r}; the attributes are {attributes}")
        return found

    def summary(self, world: World | None, config: Config) -> dict[str, str]:
        """Each attribute of the objects in a line, and the other fields as state_summary has them."""
        if self._tree is None:
            return state_summary(self._snapshot, world, config)
        return {**self._tree.summary(), **self._other_fields()}

    def _other_fields(self) -> dict[str, str]:
        shown = self._tree.fields if self._tree is not None else set()
        return {name: describe_field(self._snapshot, name) for name in self._snapshot if name not in shown}

    def summary_lines(self, world: World | None, config: Config, *, whole: bool) -> list[str]:
        """The summary as lines, with the first parts of attributes that need more than one. whole: all parts."""
        if self._tree is None:
            return [f"{name}: {text}" for name, text in self.summary(world, config).items()]
        lines = [plain_text(line) for line in self._tree.lines(whole=whole)]
        return lines + [f"{name}: {text}" for name, text in self._other_fields().items()]

    def requested_lines(self, *, whole: bool) -> list[str]:
        """The requested fields and values as lines. whole: all of their values."""
        lines: list[str] = []
        for name in self._requested:
            if name in self._found:
                assert self._tree is not None
                lines += [plain_text(line) for line in self._tree.lines_at(*self._found[name], whole=whole)]
                continue
            lines.append(f"{name}: {describe_field(self._snapshot, name)}")
            lines += [f"  {line}" for line in field_lines(self._snapshot[name], whole=whole)]
        return lines

    def requested_values(self) -> dict[str, Any]:
        """The requested fields and values, for JSON."""
        values: dict[str, Any] = {}
        for name in self._requested:
            if name in self._found:
                assert self._tree is not None
                values[name] = self._tree.plain(*self._found[name])
            else:
                values[name] = self._snapshot[name]
        return values
