"""Prove that a keyframe restores the values that the simulation had when it was recorded.

The recorder stores a digest of the values with a keyframe, made by other code than the state. After a load the digest
must be equal, and capturing the restored objects again must give the keyframe's bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import attrs

from recorder.errors import RecordingError, SimulationFailedError
from recorder.exception_text import raised_text
from recorder.format.segments.block_location import KeyframeLocation
from replayer.playback.cursor import Cursor
from sim.kernel.hooks import CanRecapture, ComparesValues, HasValueDigest, NamesUnreadValues, hook
from sim.kernel.simulation import inner_of

LIVE_TICKS_MAX = 20_000  # A fresh run is stepped this far to learn which value a keyframe restores wrongly.

T = TypeVar("T")


@attrs.frozen
class KeyframeValues:
    """The result for one keyframe.

    Attributes:
        tick: of the keyframe.
        differing: True if the digest of the restored values is not the recorded one.
        recaptured: paths of attributes of which a new capture gives other bytes than the keyframe has.
        path: of the first value that is restored wrongly; None if it was not searched for, empty if it was not found.
        not_read: classes of objects whose values no digest can read: nothing is known of these.
    """

    tick: int
    differing: bool
    recaptured: tuple[str, ...] = ()
    path: str | None = None
    not_read: tuple[str, ...] = ()

    @property
    def proved(self) -> bool:
        """True if the keyframe restores the recorded values."""
        return not self.differing and not self.recaptured

    def __str__(self) -> str:
        """One sentence for people."""
        where = self.path or ", ".join(self.recaptured)
        if not where and self.path is not None:
            where = "unknown ones, since no replay from the start gives the recorded ones"
        how = "" if self.differing else " (their digest is equal, and capturing them again gives other bytes)"
        return f"keyframe at tick {self.tick:,} restores to other values{': ' if where else ''}{where}{how}"


def prove_keyframe(cursor: Cursor, place: KeyframeLocation) -> KeyframeValues | None:
    """Prove the keyframe whose state was just loaded into the cursor's simulation; None if it has no digest.

    Also None for a simulation that cannot make one by the same method. Raises CorruptError or TornError;
    SimulationFailedError if the simulation raises.
    """
    recorded = cursor.tape.recording.value_digest(place)
    digests = hook(inner_of(cursor.simulation), HasValueDigest)
    if not recorded or digests is None:
        return None
    made = asked(place.tick, "value_digest", digests.value_digest)
    if made[:1] != recorded[:1]:
        return None  # Another method made the recorded one.
    differing = made != recorded
    recaptures = hook(cursor.simulation, CanRecapture)
    recaptured = () if recaptures is None else tuple(asked(place.tick, "recapture", recaptures.recapture))
    if recaptured:
        cursor.put(place.tick, cursor.tape.snapshot(place))  # It was repaired: the ticks after it are compared as ever.
    unread = hook(inner_of(cursor.simulation), NamesUnreadValues)
    not_read = () if unread is None else tuple(asked(place.tick, "values_not_read", unread.values_not_read))
    return KeyframeValues(place.tick, differing, recaptured, not_read=not_read)


def asked(tick: int, what: str, ask: Callable[[], T]) -> T:
    """What a member of the simulation returns. Raises SimulationFailedError if it raises."""
    try:
        return ask()
    except Exception as error:
        raise SimulationFailedError(tick, raised_text(what, error)) from error


def find_path(make_cursor: Callable[[], Cursor], place: KeyframeLocation) -> str:
    """The path of the first value that a keyframe restores wrongly; empty if no replay gives the recorded values."""
    restored = make_cursor()
    recorded = restored.tape.recording.value_digest(place)
    restored.put(place.tick, restored.tape.snapshot(place))
    compares = hook(inner_of(restored.simulation), ComparesValues)
    for simulation in _replays(make_cursor, place.tick):
        digests = hook(simulation, HasValueDigest)
        if compares is not None and digests is not None and digests.value_digest() == recorded:
            return compares.value_difference(simulation) or ""
    return ""


def _replays(make_cursor: Callable[[], Cursor], tick: int) -> Iterator[Any]:
    """Simulations that were stepped to tick without loading its keyframe: from the start, and from the one before."""
    for begin in (_begin_fresh, _begin_before):
        cursor = make_cursor()
        try:
            if begin(cursor, tick):
                while cursor.tick != tick:
                    cursor.advance()
                yield inner_of(cursor.simulation)
        except RecordingError:  # It cannot be stepped this far: there is no such replay to compare with.
            continue


def _begin_fresh(cursor: Cursor, tick: int) -> bool:
    is_near = cursor.tape.first_tick == 0 and tick <= LIVE_TICKS_MAX
    if is_near:
        cursor.tick = 0  # As the factory made it: nothing is loaded.
    return is_near


def _begin_before(cursor: Cursor, tick: int) -> bool:
    if tick == cursor.tape.first_tick:
        return False
    cursor.place_before(tick - 1)
    return True
