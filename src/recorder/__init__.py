"""Record simulations: from a running simulation to bytes on a disk."""

from simulation_flight_recorder_names import ensure_ours

ensure_ours("sim", __name__)
ensure_ours("replayer", __name__)  # Not needed here. Checked here because a hidden replayer runs no code.

from typing import TYPE_CHECKING  # noqa: E402 - a user's own sim.py must be named before imports fail by it

from recorder._lazy import names_for_later  # noqa: E402
from recorder.errors import (  # noqa: E402
    ConcurrentStepError,
    CorruptError,
    DesyncError,
    ForkedRecorderError,
    MemoryBudgetError,
    MissingTickError,
    OutputFunctionError,
    PeerDesyncError,
    RecordingError,
    RecordingWarning,
    SimulationFailedError,
    TornError,
    UnreadableError,
    UnsupportedVersionError,
    WriterFailedError,
)

if TYPE_CHECKING:
    from recorder.adapted.flight_recorder import FlightRecorder
    from recorder.adapted.record import object_of, record, tape_of
    from recorder.processes.engines.engine_error import EngineError
    from recorder.processes.engines.ray_engine import RayEngine
    from recorder.reopen.resume import resume
    from recorder.session.recorder import Recorder
    from recorder.statistics import RecorderStatistics

__all__ = [
    "ConcurrentStepError",
    "CorruptError",
    "DesyncError",
    "EngineError",
    "FlightRecorder",
    "ForkedRecorderError",
    "MemoryBudgetError",
    "MissingTickError",
    "OutputFunctionError",
    "PeerDesyncError",
    "RayEngine",
    "Recorder",
    "RecorderStatistics",
    "RecordingError",
    "RecordingWarning",
    "SimulationFailedError",
    "TornError",
    "UnreadableError",
    "UnsupportedVersionError",
    "WriterFailedError",
    "object_of",
    "record",
    "resume",
    "tape_of",
]

_LATER = {  # Imported on first use: a program that only reads tapes needs none of them.
    "EngineError": "recorder.processes.engines.engine_error",
    "FlightRecorder": "recorder.adapted.flight_recorder",
    "RayEngine": "recorder.processes.engines.ray_engine",
    "Recorder": "recorder.session.recorder",
    "RecorderStatistics": "recorder.statistics",
    "object_of": "recorder.adapted.record",
    "record": "recorder.adapted.record",
    "resume": "recorder.reopen.resume",
    "tape_of": "recorder.adapted.record",
}

__getattr__, __dir__ = names_for_later(__name__, _LATER, __all__, ("corpus", "scenarios", "testing"))
