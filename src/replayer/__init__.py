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
from replayer.desync.hidden_state.sync_test import SyncTest  # noqa: E402
from replayer.tail import Tail  # noqa: E402
from replayer.tape import Tape  # noqa: E402
from replayer.timeline import SeekReport, Timeline  # noqa: E402
from replayer.timeline import Timeline as open  # noqa: E402, A004, N813 - replayer.open is the documented name
from replayer.verify import Report  # noqa: E402

if TYPE_CHECKING:
    from replayer.extraction.extract import extract
    from replayer.extraction.reading import Dataset
    from replayer.extraction.streaming import samples

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

_LATER = {  # Imported when they are first asked for.
    "Dataset": "replayer.extraction.reading",
    "extract": "replayer.extraction.extract",
    "samples": "replayer.extraction.streaming",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - only for what comes later

    return getattr(import_module(_LATER[name]), name)
