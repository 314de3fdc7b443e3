"""Record simulations: from a running simulation to bytes on a disk."""

from recorder._shadowing import ensure_not_shadowed

ensure_not_shadowed("sim", __name__)
ensure_not_shadowed("replayer", __name__)  # It is not needed here, but a file that hides it runs none of its code.

from recorder.errors import (  # noqa: E402 - a user's own sim.py must be named before it makes these imports fail
    CorruptError,
    DesyncError,
    ForkedRecorderError,
    MissingTickError,
    PeerDesyncError,
    RecordingError,
    RecordingWarning,
    SimulationFailedError,
    TornError,
    UnreadableError,
    UnsupportedVersionError,
    WriterFailedError,
)
from recorder.foreign import record  # noqa: E402
from recorder.jobs import RecorderStatistics  # noqa: E402
from recorder.recorder import Recorder  # noqa: E402
from recorder.resume import resume  # noqa: E402

__all__ = [
    "CorruptError",
    "DesyncError",
    "ForkedRecorderError",
    "MissingTickError",
    "PeerDesyncError",
    "Recorder",
    "RecorderStatistics",
    "RecordingError",
    "RecordingWarning",
    "SimulationFailedError",
    "TornError",
    "UnreadableError",
    "UnsupportedVersionError",
    "WriterFailedError",
    "record",
    "resume",
]
