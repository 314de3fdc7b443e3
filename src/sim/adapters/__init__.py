"""Adapters: what makes a foreign simulation look like one of ours, with its whole state in an arena."""

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
