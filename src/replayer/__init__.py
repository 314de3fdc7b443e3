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

from typing import TYPE_CHECKING  # noqa: E402 - see above

from recorder._later import names_for_later  # noqa: E402
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

_LATER = {  # Imported when they are first asked for.
    "Dataset": "replayer.extraction.reading",
    "Report": "replayer.verify",
    "SeekReport": "replayer.timeline",
    "SyncTest": "replayer.desync.hidden_state.sync_test",
    "Tail": "replayer.tail",
    "Tape": "replayer.tape",
    "Timeline": "replayer.timeline",
    "extract": "replayer.extraction.extract",
    "open": "replayer.timeline:Timeline",
    "samples": "replayer.extraction.streaming",
}

__getattr__, __dir__ = names_for_later(__name__, _LATER, __all__)
