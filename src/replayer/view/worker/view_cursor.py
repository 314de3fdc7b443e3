"""Go to ticks of a tape for the page; a newer wish can replace one under way.

Where the simulation is not available, the states of keyframes stand for the ticks after them.
"""

from __future__ import annotations

import bisect
import contextlib
import time
from collections.abc import Callable, Iterator

import numpy as np

from recorder.errors import DesyncError, MissingTickError, RecordingError
from recorder.exception_text import raised_text
from recorder.location.tape_location import Location
from replayer.playback.cursor import SeekCancelledError
from replayer.playback.make_simulation import Factory
from replayer.tape.tape import Tape
from replayer.timeline.timeline import Timeline
from replayer.view.states.frame_encoding import EncodedTick, encode_picture, encode_points, encode_values
from replayer.view.states.shown_layers import PICTURE, ShownLayers, is_picture
from replayer.view.worker.live_timeline import LiveTimeline, StepOutputs
from replayer.view.worker.page_jobs import ViewSelection
from sim.kernel.state import Snapshot

ASK_S = 0.005  # A seek under way asks this often if it is still wanted.
AT_HAND_TICKS = 40
KEYFRAMES_READ_S = 0.5  # Of a tape that is being recorded.
NEAR_TICKS = 48  # A timeline keeps up to 64 states: those of the last ticks before the cursor are likely among them.

IsStale = Callable[[], bool]


class ViewCursor:
    """One position on a tape, and the states there.

    Attributes:
        run: the timeline.
        problem: the reason why ticks cannot be simulated; None if they can. The states of keyframes are shown then.
        first_tick: the first that can be shown.
        keyframes: their ticks, ascending.
        shown: what states show.
    """

    def __init__(
        self, path: Location, factory: Factory | None, *, is_live: bool = False, with_parents: bool = False
    ) -> None:
        """is_live: the tape is being recorded: outputs() has what is not on it yet.

        with_parents: the ticks before a branch begins are those of its parent, if that is there.

        Raises as Timeline does, and MissingTickError if the tape has no tick.
        """
        self.run = LiveTimeline(path, factory) if is_live else Timeline(path, factory)
        self._tapes = parent_tapes(self.run) if with_parents else [self.run.tape]
        self.first_tick = self._tapes[0].first_tick
        self._keyframes_read_s = 0.0
        self.keyframes: list[int] = []
        self.follow_files()
        self.problem = self._find_problem()
        self.shown = ShownLayers(self.run, factory, self._samples(), can_simulate=self.problem is None)

    def catch_up(self, tick: int) -> None:
        """Read what was added to the tape, if it did not go as far as a tick: it is being recorded. Raises as refresh does."""
        if tick > self.run.last_tick:
            self.run.tape.refresh()
            self.follow_files()

    def follow_files(self) -> None:
        """Note the keyframes that were added. Looking through all of them takes a while, so it is not done for each tick."""
        now_s = time.monotonic()
        if now_s - self._keyframes_read_s >= KEYFRAMES_READ_S:
            self._keyframes_read_s = now_s
            ends = [*(tape.first_tick for tape in self._tapes[1:]), self.run.last_tick + 1]
            spans = zip(self._tapes, ends, strict=True)
            self.keyframes = sorted({place.tick for tape, end in spans for place in tape.keyframes if place.tick < end})

    def tape_at(self, tick: int) -> Tape:
        """The tape that holds a tick: this one, or that of a parent."""
        return next((tape for tape in reversed(self._tapes) if tick >= tape.first_tick), self._tapes[0])

    def tape_of_step(self, tick: int) -> Tape:
        """The tape that has the step to a tick: where a branch begins, that of its parent."""
        return next((tape for tape in reversed(self._tapes) if tick > tape.first_tick), self._tapes[0])

    def _find_problem(self) -> str | None:
        """Make the simulation and run one step; a failure is the reason why only keyframes are shown."""
        try:
            self.run.seek(self.run.first_tick)
            self.run.seek(min(self.run.first_tick + 1, self.run.last_tick))
        except DesyncError:
            return None  # Later ticks may be as recorded; the page reports this one when it is visited.
        except (RecordingError, LookupError, ValueError) as error:
            return str(error.args[0]) if isinstance(error, LookupError) else str(error)
        return None

    def _samples(self) -> dict[int, Snapshot]:
        """The states of the first tick and of the one after it, as far as they can be shown."""
        first = self.run.first_tick
        samples = dict.fromkeys([first], self.state(first)[0])
        if self.problem is None and self.run.last_tick > first:
            with contextlib.suppress(DesyncError):  # The page reports it when it is visited.
                samples[first + 1] = self.state(first + 1)[0]
        return samples

    def state(self, tick: int) -> tuple[Snapshot, int]:
        """The state at a tick, and the tick that it belongs to. Raises as Timeline.seek does."""
        if self.problem is None:
            if self.run.tick != tick:
                self.run.seek(tick)
            return self.run.state.snapshot(), tick
        error: RecordingError | None = None
        tape = self.tape_at(tick)
        for place in tape.keyframes_at_or_before(tick):
            try:
                return tape.snapshot(place), place.tick
            except RecordingError as damaged:
                error = damaged
        raise error or RecordingError(f"tick {tick}: there is no keyframe before it")

    def keyframe_before(self, tick: int) -> int:
        """The tick of the last keyframe at or before a tick."""
        return self.keyframes[max(0, bisect.bisect_right(self.keyframes, tick) - 1)]

    def start_of(self, tick: int) -> int:
        """Where a walk to a tick begins: where the cursor stands, if that is on the way, else the keyframe before the tick."""
        keyframe, here = self.keyframe_before(tick), self.run.tick
        return here if here is not None and keyframe <= here <= tick else keyframe

    def is_far(self, tick: int, ticks: int) -> bool:
        """Return True if more than this many steps lead to a tick from where the cursor stands."""
        return tick - self.start_of(tick) > ticks

    def is_at_hand(self, tick: int) -> bool:
        """Return True if a tick is a few steps ahead of the cursor, or if its state is probably in memory."""
        here = self.run.tick
        return here is not None and -NEAR_TICKS <= tick - here <= AT_HAND_TICKS

    @property
    def tick(self) -> int | None:
        """Where the last walk has come to; None if it is at no tick."""
        return self.run.tick

    @property
    def has_outputs(self) -> bool:
        """True if the tape is being recorded, and its simulation gives figures or events."""
        return isinstance(self.run, LiveTimeline) and self.problem is None and self.run.has_outputs

    def outputs(self) -> StepOutputs | None:
        """What the simulation gave in the step to the present tick, on a tape that is being recorded; None if unknown."""
        return self.run.outputs() if isinstance(self.run, LiveTimeline) and self.problem is None else None

    def walk(self, tick: int, is_stale: IsStale) -> bool:
        """Go to a tick; False if is_stale() became True on the way. Raises as Timeline.seek does."""
        if self.problem is not None or self.run.tick == tick:
            return True
        try:
            self.run.seek(tick, cancelled=seldom(is_stale))
        except SeekCancelledError:
            return False
        return True

    def encode(self, snapshot: Snapshot, shown: int, look: ViewSelection) -> EncodedTick:
        """What is shown of a state, which the cursor is at. shown: its tick."""
        numbers = {name: number for number, name in enumerate(self.shown.names)}
        # A layer that this state lacks is empty, so that no page waits for it.
        layers = {name: b"" for name in look.layers if name in numbers}
        exact = {name: np.zeros((0, 0)) for name in layers} if look.exact else {}
        state_hash = snapshot.hash()
        if PICTURE in layers and self.shown.has_picture:
            drawn = self.shown.picture(shown, snapshot)
            layers[PICTURE] = b"" if drawn is None else encode_picture(numbers[PICTURE], drawn)
        wanted = [name for name in layers if name != PICTURE]
        maps = self.shown.layers(shown, snapshot, wanted) if wanted else {}
        for name in layers:
            if name in maps and maps[name].size:
                encode = encode_picture if is_picture(maps[name]) else encode_values
                layers[name] = encode(numbers[name], maps[name])
                if look.exact:
                    exact[name] = maps[name].copy()
        points = self.shown.points(shown, snapshot) if self.shown.point_kinds else {}
        kinds = {name: number for number, name in enumerate(self.shown.point_kinds)}
        encoded = b"".join(encode_points(kinds[name], places) for name, places in points.items() if name in kinds)
        return EncodedTick(shown, state_hash, layers, encoded, exact)

    def trouble_text(self, error: Exception) -> str:
        """One line about a tick that cannot be shown."""
        if not isinstance(error, RecordingError):
            return raised_text("showing the tick", error)
        own = self.shown.own_methods
        if not isinstance(error, DesyncError) or not own:
            return str(error)
        called = " and ".join(f"{name}()" for name in own)
        return f"{error} ({called} of the simulation ran in this process, on a copy; replay verify runs without)"

    def outward_from(self, tick: int) -> Iterator[range]:
        """The ticks of the tape by keyframe intervals, the nearest to a tick first; without simulation keyframes only."""
        ends = [*self.keyframes[1:], self.run.last_tick + 1]
        spans = zip(self.keyframes, ends, strict=True)
        for start, end in sorted(spans, key=lambda span: _distance(tick, span)):
            yield range(start, end if self.problem is None else start + 1)


def parent_tapes(run: Timeline) -> list[Tape]:
    """The tape of a run, and before it those of its parents, the first run first, as far as they are there."""
    tapes = [run.tape]
    with contextlib.suppress(MissingTickError):  # The parent is not there, or was changed.
        while run.first_tick > 0 and (above := run.holder_of(run.first_tick - 1)) is not run:
            run = above
            tapes.insert(0, run.tape)
    return tapes


def _distance(tick: int, span: tuple[int, int]) -> int:
    start, end = span
    return 0 if start <= tick < end else min(abs(start - tick), abs(end - 1 - tick))


def seldom(is_stale: IsStale) -> IsStale:
    """The same question, asked at most once in ASK_S: a step may take less time than to ask."""
    due_s = time.perf_counter() + ASK_S

    def asked() -> bool:
        nonlocal due_s
        now_s = time.perf_counter()
        if now_s < due_s:
            return False
        due_s = now_s + ASK_S
        return is_stale()

    return asked
