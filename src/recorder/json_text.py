"""Format results as JSON that any parser reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def json_text(facts: Any, *, indent: int | None = None, default: Callable[[Any], Any] | None = None) -> str:
    """Format facts as JSON that any parser reads: numbers that JSON lacks become the texts "NaN", "Infinity", "-Infinity".

    indent, default: see json.dumps.
    """
    try:
        text = json.dumps(facts, indent=indent, default=default, allow_nan=False)
    except ValueError:  # Rare, so the facts are only copied then.
        plain = json.loads(json.dumps(facts, default=default), parse_constant=str)
        text = json.dumps(plain, indent=indent, allow_nan=False)
    return text.replace("\x7f", "\\u007f")  # json leaves DEL.
