"""The part after # of a page's address: the tick and the view at which it opens."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl

# As page/main.js writes and reads them.
KEYS = {
    "tapes",
    "tick",
    "layers",
    "curves",
    "tab",
    "compare",
    "window",
    "loop",
    "kind",
    "map",
    "scale",
    "hidden",
}


def shown_address(text: str, *, is_of_folder: bool = False) -> str:
    """Return the part after # for the tick and view that a user asked for: a tick, or such a part itself; "" is the beginning.

    is_of_folder: True for the list of a folder's runs, which has no tick and keys of its own. Raises ValueError.
    """
    shown = text.removeprefix("#")
    if re.fullmatch(r"[0-9]+", shown) and not is_of_folder:
        return f"tick={int(shown)}"
    try:
        pairs = parse_qsl(shown, keep_blank_values=True, strict_parsing=True) if shown else []
        tick = dict(pairs).get("tick", "0")
        is_known = is_of_folder or ({key for key, _ in pairs} <= KEYS and re.fullmatch("[0-9]+|live", tick))
    except ValueError:
        is_known = False
    if not is_known:
        raise ValueError(
            f"{text!r:.60}: expected a tick such as 130, or the part after # of a page's address, such as "
            "tick=130&tab=fields"
        )
    return shown
