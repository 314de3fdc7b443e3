"""Plain data of a tape as JSON for the page: bounded in size, and exact where JavaScript's numbers are not.

Texts of a tape are untrusted. The page shows them as text nodes only; here they are made short and visible.
"""

from __future__ import annotations

import math
from typing import Any

from replayer.value_text import to_json

TEXT_MAX = 300  # Characters of one text.
ITEMS_MAX = 200  # Of one list or map.
LEVELS_MAX = 12
LEFT_OUT = "…"
EXACT_MAX = 2**53  # JavaScript's numbers hold larger integers inexactly: they are sent as text.

# Characters that would reorder or hide the text around them.
_HIDDEN = {
    code: f"\\u{code:04x}" for code in (*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF)
}
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}
_SHOWN = _HIDDEN | _CONTROLS


def page_text(text: str, length_max: int = TEXT_MAX) -> str:
    """A text of a tape, shortened, with its invisible characters and lone surrogates written out."""
    cut = text if len(text) <= length_max else text[: length_max - 1] + LEFT_OUT
    return cut.encode("utf-8", "backslashreplace").decode().translate(_SHOWN)


def page_json(value: Any) -> Any:
    """Plain data, arrays and bytes as JSON of at most ITEMS_MAX items and LEVELS_MAX levels."""
    return _bounded(to_json(_cut(value, LEVELS_MAX)))


def _cut(value: Any, levels: int) -> Any:
    """The value without what exceeds the bounds, so that nothing large is converted."""
    if isinstance(value, dict):
        if not levels:
            return LEFT_OUT
        kept = list(value.items())[:ITEMS_MAX]
        cut = {str(key)[:TEXT_MAX]: _cut(inner, levels - 1) for key, inner in kept}
        return cut if len(value) <= ITEMS_MAX else {**cut, LEFT_OUT: f"{len(value) - ITEMS_MAX:,} more"}
    if isinstance(value, list | tuple):
        if not levels:
            return LEFT_OUT
        items = [_cut(inner, levels - 1) for inner in value[:ITEMS_MAX]]
        return items if len(value) <= ITEMS_MAX else [*items, f"{LEFT_OUT} {len(value) - ITEMS_MAX:,} more"]
    if isinstance(value, bytes | bytearray):
        return bytes(value[:TEXT_MAX])
    if getattr(value, "size", 0) > ITEMS_MAX:
        return f"array of {value.size:,} values"
    return value


def _bounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {page_text(key): _bounded(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_bounded(inner) for inner in value]
    if isinstance(value, str):
        return page_text(value)
    return page_number(value)


def page_number(value: Any) -> Any:
    """A number as JSON, or as text if JSON or JavaScript cannot hold it."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if abs(value) <= EXACT_MAX else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return page_text(str(value))
