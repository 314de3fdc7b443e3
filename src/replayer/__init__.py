"""Replay recordings: from bytes on a disk to states and findings."""

from simulation_flight_recorder_names import ensure_ours

ensure_ours("recorder", __name__)

from typing import TYPE_CHECKING  # noqa: E402 - see above

from recorder._lazy import names_for_later  # noqa: E402
from recorder.errors import (  # noqa: E402
    DesyncError,
    IncompleteTapeWarning,
    MemoryBudgetError,
    MissingTickError,
    RecordingError,
)
from replayer.html_renderers import renderers_are_in  # noqa: E402

if TYPE_CHECKING:
    from recorder.location.tape_url import TapeUrl
    from replayer.branches.fork import Fork
    from replayer.datasets.dataset import Dataset
    from replayer.datasets.extract import extract
    from replayer.datasets.stream.samples import samples
    from replayer.diagnose.hidden_state.sync_test import SyncTest
    from replayer.follow.tail import Tail
    from replayer.playback.cursor import SeekCancelledError
    from replayer.playback.mapped_simulation import with_field_map
    from replayer.playback.rebuild_events import rebuild_events
    from replayer.reduction.influence import InfluenceReport, influence
    from replayer.reduction.shrink_tape import ShrinkReport, shrink
    from replayer.search.lookup.lookup import LookupWarning
    from replayer.tape.environment_calls import EnvironmentCall
    from replayer.tape.episodes import Episode
    from replayer.tape.tape import Tape
    from replayer.timeline.many.verify_many import verify_tapes
    from replayer.timeline.open_timeline import open_timeline as open  # noqa: A004 - the documented name
    from replayer.timeline.timeline import SeekReport, Timeline
    from replayer.timeline.values_check import check_values
    from replayer.timeline.verify import VerificationReport as Report
    from replayer.timeline.verify import verify_tape

__all__ = [
    "Dataset",
    "DesyncError",
    "EnvironmentCall",
    "Episode",
    "Fork",
    "IncompleteTapeWarning",
    "InfluenceReport",
    "LookupWarning",
    "MemoryBudgetError",
    "MissingTickError",
    "RecordingError",
    "Report",
    "SeekCancelledError",
    "SeekReport",
    "ShrinkReport",
    "SyncTest",
    "Tail",
    "Tape",
    "TapeUrl",
    "Timeline",
    "check_values",
    "extract",
    "influence",
    "open",
    "rebuild_events",
    "samples",
    "shrink",
    "verify_tape",
    "verify_tapes",
    "with_field_map",
]

_LATER = {  # Imported at first access.
    "Dataset": "replayer.datasets.dataset",
    "EnvironmentCall": "replayer.tape.environment_calls",
    "Episode": "replayer.tape.episodes",
    "Fork": "replayer.branches.fork",
    "InfluenceReport": "replayer.reduction.influence",
    "LookupWarning": "replayer.search.lookup.lookup",
    "Report": "replayer.timeline.verify:VerificationReport",
    "SeekCancelledError": "replayer.playback.cursor",
    "SeekReport": "replayer.timeline.timeline",
    "ShrinkReport": "replayer.reduction.shrink_tape",
    "SyncTest": "replayer.diagnose.hidden_state.sync_test",
    "Tail": "replayer.follow.tail",
    "Tape": "replayer.tape.tape",
    "TapeUrl": "recorder.location.tape_url",
    "Timeline": "replayer.timeline.timeline",
    "check_values": "replayer.timeline.values_check",
    "extract": "replayer.datasets.extract",
    "influence": "replayer.reduction.influence",
    "open": "replayer.timeline.open_timeline:open_timeline",
    "rebuild_events": "replayer.playback.rebuild_events",
    "samples": "replayer.datasets.stream.samples",
    "shrink": "replayer.reduction.shrink_tape",
    "verify_tape": "replayer.timeline.verify",
    "verify_tapes": "replayer.timeline.many.verify_many",
    "with_field_map": "replayer.playback.mapped_simulation",
}

renderers_are_in("replayer.report.notebook")
__getattr__, __dir__ = names_for_later(__name__, _LATER, __all__, ("datasets", "diagnose"))
