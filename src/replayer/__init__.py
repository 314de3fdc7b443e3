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

from typing import TYPE_CHECKING, Any  # noqa: E402

from recorder.errors import DesyncError, MissingTickError, RecordingError  # noqa: E402 - see above
from replayer.desync.hidden_state.sync_test import SyncTest  # noqa: E402
from replayer.tail import Tail  # noqa: E402
from replayer.tape import Tape  # noqa: E402
from replayer.timeline import SeekReport, Timeline  # noqa: E402
from replayer.timeline import Timeline as open  # noqa: E402, A004, N813 - replayer.open is the documented name
from replayer.verify import Report  # noqa: E402

if TYPE_CHECKING:
    from replayer.extraction.extract import extract
    from replayer.extraction.reading import Dataset

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
]


def __getattr__(name: str) -> Any:
    """Extraction, and what reads data sets, when it is first asked for: importing replayer imports none of it."""
    if name == "extract":
        from replayer.extraction.extract import extract  # noqa: PLC0415 - see above

        return extract
    if name == "Dataset":
        from replayer.extraction.reading import Dataset  # noqa: PLC0415 - see above

        return Dataset
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
