"""Rows of a CSV file whose texts no spreadsheet takes for a formula.

A spreadsheet evaluates a cell that begins with =, +, -, @, a tab or a line end, and texts on a tape are untrusted.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from typing import IO, Any

_STARTS_OF_FORMULAS = tuple("=+-@\t\r\n＝＋－＠")  # The wide forms count as well where East Asian text is entered.
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|nan)", re.ASCII)
_MARK_OF_TEXT = "'"


def harmless(cell: Any) -> Any:
    """The cell, with ' before a text that a spreadsheet would evaluate. Numbers, also those that are text, stay."""
    if type(cell) is str and cell.startswith(_STARTS_OF_FORMULAS) and not _NUMBER.fullmatch(cell):
        return _MARK_OF_TEXT + cell
    return cell


class CsvRows:
    """Writes rows of a CSV file.

    Attributes:
        raw: True writes texts unchanged, for programs that read each text back exactly.
    """

    def __init__(self, file: IO[str], *, raw: bool = False, line_end: str = "\r\n") -> None:
        self.raw = raw
        self._writer = csv.writer(file, lineterminator=line_end)

    def write(self, row: Iterable[Any]) -> None:
        """Write one row, the heading included."""
        self._writer.writerow(row if self.raw else map(harmless, row))
