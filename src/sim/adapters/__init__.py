"""Adapters: what makes a foreign simulation look like one of ours, with its whole state in an arena."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim.adapters.adapting import adapt
    from sim.adapters.captured import CapturedWarning
    from sim.adapters.plain_object import Fields, fields
    from sim.adapters.registry import Adapter, NoAdapterError, NotCapturedError
    from sim.adapters.report import Part, Report
    from sim.kernel.level import Level

__all__ = [
    "Adapter",
    "CapturedWarning",
    "Fields",
    "Level",
    "NoAdapterError",
    "NotCapturedError",
    "Part",
    "Report",
    "adapt",
    "fields",
]

_LATER = {  # Imported when they are first asked for: whoever reads a tape needs them only if an adapter has made it.
    "Adapter": "sim.adapters.registry",
    "CapturedWarning": "sim.adapters.captured",
    "Fields": "sim.adapters.plain_object",
    "Level": "sim.kernel.level",
    "NoAdapterError": "sim.adapters.registry",
    "NotCapturedError": "sim.adapters.registry",
    "Part": "sim.adapters.report",
    "Report": "sim.adapters.report",
    "adapt": "sim.adapters.adapting",
    "fields": "sim.adapters.plain_object",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - only for what comes later

    return getattr(import_module(_LATER[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
