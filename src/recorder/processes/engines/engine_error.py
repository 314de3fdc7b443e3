"""The error of an engine that cannot be used."""

from __future__ import annotations

from recorder.errors import RecordingError


class EngineError(RecordingError):
    """An engine is not installed, cannot be reached, or its machines cannot do the work."""
