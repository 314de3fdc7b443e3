"""Read a field map: how the fields of an older tape are called in the present code. A small TOML file for people.

[renamed] has a line for each field or table whose name on the tape is another one; [added] one for each field that the
tape does not have, with the value that it has when a keyframe is loaded: a number, true, false, or "new" for the value in
a new simulation. Fields of equal names need no line; the order of the fields does not matter.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

from sim.kernel.schema import COUNTS_FIELD, Layout
from sim.near_names import did_you_mean

NEW = "new"
FILE_BYTES_MAX = 1 << 20
_TABLES = ("renamed", "added")


class FieldMapError(ValueError):
    """A field map cannot be used; the message says why, in one line."""


@attrs.frozen
class FieldMap:
    """A field map as it is written.

    Attributes:
        path: of the file, for messages.
        renamed: names in the code by names on the tape, of fields and tables.
        added: values of fields that the tape does not have, by names in the code.
    """

    path: str
    renamed: Mapping[str, str]
    added: Mapping[str, Any]

    def names(self, recorded: Layout, present: Layout) -> dict[str, str]:
        """The field of the code for each field of the tape, blobs included.

        Raises FieldMapError for a field that is nowhere, and for names in the file that no side has.
        """
        tables = {slot.owner for slot in recorded.slots.values() if slot.owner is not None}
        theirs, ours = _fields(recorded), _fields(present)
        self._ensure_known(self.renamed, [*theirs, *tables], "on the tape")
        found = {name: self._present(name) for name in theirs}
        lost = [
            f"{name} (as {found[name]})" if found[name] != name else name for name in theirs if found[name] not in ours
        ]
        if lost:
            self._refuse(
                f"{', '.join(lost)}: fields of the tape that the simulation does not have: name them in [renamed]"
            )
        self._ensure_known(self.added, ours, "in the simulation")
        taken = set(found.values())
        if len(taken) < len(found):
            self._refuse("two fields of the tape are one field of the simulation")
        both = [name for name in self.added if name in taken]
        if both:
            self._refuse(f"[added] {both[0]}: the tape has this field")
        unnamed = [name for name in ours if name not in taken and name not in self.added]
        if unnamed:
            self._refuse(
                f"{', '.join(unnamed)}: fields of the simulation that the tape does not have: name them in [added], "
                f'with the value at a keyframe, or "{NEW}"'
            )
        return found

    def _present(self, name: str) -> str:
        if name in self.renamed:
            return self.renamed[name]
        table, dot, column = name.partition(".")
        return f"{self.renamed.get(table, table)}{dot}{column}" if dot else name

    def _ensure_known(self, names: Iterable[str], known: list[str], where: str) -> None:
        for name in names:
            if name not in known:
                self._refuse(f"{name}: no field {where}{did_you_mean(name, known)}")

    def _refuse(self, why: str) -> None:
        raise FieldMapError(f"{self.path}: {why}")


def _fields(layout: Layout) -> list[str]:
    return [name for name in layout.slots if name != COUNTS_FIELD]


def read_field_map(path: str | os.PathLike[str]) -> FieldMap:
    """Read a field map. Raises FieldMapError for a file that is none, OSError."""
    name, file = os.fspath(path), Path(path)
    if file.stat().st_size > FILE_BYTES_MAX:
        raise FieldMapError(f"{name}: larger than {FILE_BYTES_MAX:,} bytes: not a field map")
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FieldMapError(f"{name}: not a TOML file: {error}") from None
    unknown = [key for key in content if key not in _TABLES]
    if unknown:
        raise FieldMapError(f"{name}: expected the tables [renamed] and [added], got {unknown[0]}")
    renamed, added = (_flat(content.get(key, {}), name, key) for key in _TABLES)
    for key, value in renamed.items():
        if not isinstance(value, str) or not value:
            raise FieldMapError(f"{name}: [renamed] {key}: expected the name of a field, got {value!r}")
    for key, value in added.items():
        if not isinstance(value, bool | int | float) and value != NEW:
            raise FieldMapError(f'{name}: [added] {key}: expected a number, true, false or "{NEW}", got {value!r}')
    return FieldMap(name, renamed, added)


def _flat(table: Any, file: str, key: str) -> dict[str, Any]:
    """The entries of a table; ``plants.energy = ...`` without quotes is a table in it to TOML."""
    if not isinstance(table, dict):
        raise FieldMapError(f"{file}: expected a table [{key}]")
    flat: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            flat |= {f"{name}.{column}": inner for column, inner in value.items()}
        else:
            flat[name] = value
    return flat
