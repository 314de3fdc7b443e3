"""The recorded object in a state: values by their paths, without its classes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from recorder.exit_codes import UsageError
from replayer.desync.object_diff import objects_in
from replayer.search.search_errors import ExpressionError, UndefinedError
from replayer.tape.fields import ensure_fields
from replayer.value_text import describe_field, field_lines, plain_text, state_summary
from sim.kernel.registry import Config, World
from sim.kernel.state import Snapshot


class ShownState:
    """A state as ``replay seek`` shows it: the objects in it by paths, its other fields by their names.

    Attributes:
        requested: the names of fields, and the paths of values, that were asked for.
        fields: those of the requested names that are fields of the state.
    """

    def __init__(self, tick: int, snapshot: Snapshot, requested: Sequence[str]) -> None:
        """requested: names of fields, or paths of values in the objects. Raises UsageError for one that is neither."""
        self._tick, self._snapshot, self.requested = tick, snapshot, requested
        self._tree = objects_in(snapshot)
        self.fields = [name for name in requested if name in list(snapshot)]
        self._found: dict[str, tuple[str, Any]] = {}
        self._values: dict[str, Any] = {}  # Of names that are no path of a value, as in a condition of replay find.
        for name in requested:
            if name not in self.fields:
                self._find(name)

    def _find(self, path: str) -> None:
        """Find a value as ``replay who`` does. Raises UsageError."""
        found = self._tree.find(path) if self._tree is not None else None
        try:
            if found is None:
                from replayer.search.watched_value import NamedValue  # noqa: PLC0415 - it takes time, and is seldom asked

                named = NamedValue(path, self._tick, self._snapshot)
                found = self._tree.find(named.path) if self._tree is not None else None
                if found is None:
                    self._values[path] = named.value
                    return
            self._found[path] = found
        except (ExpressionError, UndefinedError) as error:
            if self._tree is None:
                ensure_fields(self._snapshot, [path.partition("[")[0]])
                raise UsageError(f"{path}: {error}") from None
            from replayer.search.watched_value import no_such_path  # noqa: PLC0415

            raise UsageError(no_such_path(self._tree, self._tick, path)) from None

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

    def requested_lines(self, *, whole: bool, uncut: bool = False, drawn: str | None = None) -> list[str]:
        """The requested fields and values as lines. whole: all of their values. uncut: each of them in full.

        drawn: a name of an array that is drawn as a map: its numbers are left out.
        """
        lines: list[str] = []
        for name in self.requested:
            if name in self._found:
                assert self._tree is not None
                found = self._tree.lines_at(*self._found[name], whole=whole, uncut=uncut)
                lines += [plain_text(line) for line in (islice(found, 1) if name == drawn else found)]
                continue
            if name in self._values:
                value = self._values[name]
                is_array = isinstance(value, np.ndarray)
                shown_lines = field_lines(value, whole=whole) if is_array else [f"{name} = {value!r}"]
                lines += (
                    [f"{name}:", *(f"  {line}" for line in shown_lines)] if is_array else map(plain_text, shown_lines)
                )
                continue
            lines.append(f"{name}: {describe_field(self._snapshot, name)}")
            if name != drawn:
                lines += [f"  {line}" for line in field_lines(self._snapshot[name], whole=whole)]
        return lines

    def requested_values(self) -> dict[str, Any]:
        """The requested fields and values, for JSON."""
        values: dict[str, Any] = {}
        for name in self.requested:
            if name in self._found:
                assert self._tree is not None
                values[name] = self._tree.plain(*self._found[name])
            elif name in self._values:
                values[name] = self._values[name]
            else:
                values[name] = self._snapshot[name]
        return values
