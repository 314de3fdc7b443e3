"""The note of a tape on the user's code, as it is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from recorder.ambient.outside.code_parts.digest_lists import DIGEST_BYTES, parted, parted_if_any, parted_lines


@attrs.frozen
class CodeNote:
    """The digests of a note.

    Attributes:
        python: the version that compiled the code, with its level of optimization.
        definitions, values: the digests of functions, and those of plain values.
        lines: by a digest of a function's name and its number of that name, the digests of its lines, joined.
        is_kept_early: kept has the names of modules, as earlier versions noted it.
        kept: the digests of what functions, partial calls and patterns keep; None in the note of an earlier version.
        imported: the digests of the modules that functions import; None in the note of an earlier version.
        statements: those of class statements, decorators, and what names stand for; None as above, and if too many.
        references: those of functions of C that names stand for, and of the order of arrays in memory; None as above.
        tables: those of tables that hold names, or are further containers; None as above.
        files: those of the files of the modules; None as above.
        has_wrapped: it has modules of which only wrapped functions are used, as earlier versions had not.
    """

    python: str
    definitions: frozenset[bytes]
    values: frozenset[bytes]
    lines: Mapping[bytes, bytes]
    is_kept_early: bool = False
    kept: frozenset[bytes] | None = None
    imported: frozenset[bytes] | None = None
    statements: frozenset[bytes] | None = None
    references: frozenset[bytes] | None = None
    tables: frozenset[bytes] | None = None
    files: frozenset[bytes] | None = None
    has_wrapped: bool = attrs.field(default=False, kw_only=True)


def decode_code_note(plain: Any) -> CodeNote | None:
    """The note in plain data; None for anything else."""
    match plain:
        case {"python": str(python), "definitions": bytes(definitions), "values": bytes(values)} if not (
            len(definitions) % DIGEST_BYTES or len(values) % DIGEST_BYTES
        ):
            is_early = "keeps" not in plain
            names = ("kept" if is_early else "keeps", "imported", "statements", "references", "tables", "files")
            kept, *later = (parted_if_any(plain.get(name)) for name in names)
            lines = parted_lines(plain.get("lines"))
            note = CodeNote(python, parted(definitions), parted(values), lines, is_early, kept, *later)
            return attrs.evolve(note, has_wrapped=plain.get("wrapped") is True)
    return None
