"""Adapters: they give simulations of other packages the interface of ours, with its complete state in an arena."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim.adapters.capture.captured_state import CapturedWarning
    from sim.adapters.find_adapter import adapt
    from sim.adapters.interface.adapter_registry import Adapter, NoAdapterError, NotCapturedError
    from sim.adapters.interface.capture_report import Part, Report
    from sim.adapters.plain_object.adapter import Fields, fields
    from sim.adapters.pytree import tree_leaves, tree_like
    from sim.kernel.exactness import Level

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
    "tree_leaves",
    "tree_like",
]

_LAZY = {  # Imported at first use: a reader of a tape needs them only if an adapter made the tape.
    "Adapter": "sim.adapters.interface.adapter_registry",
    "CapturedWarning": "sim.adapters.capture.captured_state",
    "Fields": "sim.adapters.plain_object.adapter",
    "Level": "sim.kernel.exactness",
    "NoAdapterError": "sim.adapters.interface.adapter_registry",
    "NotCapturedError": "sim.adapters.interface.adapter_registry",
    "Part": "sim.adapters.interface.capture_report",
    "Report": "sim.adapters.interface.capture_report",
    "adapt": "sim.adapters.find_adapter",
    "fields": "sim.adapters.plain_object.adapter",
    "tree_leaves": "sim.adapters.pytree",
    "tree_like": "sim.adapters.pytree",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - only for lazy names

    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)  # Nothing internal, so that the tab key offers nothing internal.
