"""Replay recordings: from bytes on a disk to states and findings."""

try:
    from recorder._shadowing import ensure_not_shadowed
except ModuleNotFoundError as error:
    if error.name != "recorder._shadowing":
        raise
    import recorder

    raise ImportError(
        f"{recorder.__file__} hides the package 'recorder' that replayer needs: give that file another name"
    ) from None

ensure_not_shadowed("recorder", __name__)

from typing import TYPE_CHECKING, Any  # noqa: E402 - see above

from recorder.errors import DesyncError, MissingTickError, RecordingError  # noqa: E402

if TYPE_CHECKING:
    from replayer.desync.hidden_state.sync_test import SyncTest
    from replayer.extraction.extract import extract
    from replayer.extraction.reading import Dataset
    from replayer.extraction.streaming import samples
    from replayer.tail import Tail
    from replayer.tape import Tape
    from replayer.timeline import SeekReport, Timeline
    from replayer.timeline import Timeline as open  # noqa: A004, N813 - replayer.open is the documented name
    from replayer.verify import Report

__all__ = [
    "Dataset",
    "DesyncError",
    "MissingTickError",
    "RecordingError",
    "Report",
    "SeekReport",
    "SyncTest",
    "Tail",
    "Tape",
    "Timeline",
    "extract",
    "open",
    "samples",
]

_LATER = {  # Imported when they are first asked for: the module, and the name there.
    "Dataset": ("replayer.extraction.reading", "Dataset"),
    "Report": ("replayer.verify", "Report"),
    "SeekReport": ("replayer.timeline", "SeekReport"),
    "SyncTest": ("replayer.desync.hidden_state.sync_test", "SyncTest"),
    "Tail": ("replayer.tail", "Tail"),
    "Tape": ("replayer.tape", "Tape"),
    "Timeline": ("replayer.timeline", "Timeline"),
    "extract": ("replayer.extraction.extract", "extract"),
    "open": ("replayer.timeline", "Timeline"),
    "samples": ("replayer.extraction.streaming", "samples"),
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - only for what comes later

    module, own_name = _LATER[name]
    return getattr(import_module(module), own_name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
