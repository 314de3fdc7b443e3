"""What the user left out of a recording, among the values that were proved to make a difference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from replayer.diagnose.explain.values.given_values import GivenValues
from replayer.diagnose.explain.values.value_parts import is_inside


def left_out_notes(meta: Mapping[str, Any], given: GivenValues | None) -> list[str]:
    """A sentence for each name that the recording was told to ignore and that holds a proved value. meta: of the tape."""
    adapter = meta.get("adapter")
    ignored = adapter.get("ignored") if isinstance(adapter, dict) else None
    if given is None or not isinstance(ignored, list):
        return []
    proved = [one.name for one in given.proved]
    return [
        f"{name} was left out when this was recorded (ignore=[{name!r}]), so no keyframe has what it holds"
        for name in ignored
        if isinstance(name, str) and any(one == name or is_inside(one, name) for one in proved)
    ]
