"""A reader of a modelled tape: each answer is compared with the truth, each refusal with what may be missing."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import replayer
from recorder.errors import DesyncError, MissingTickError, RecordingError
from recorder.format.blocks.frame import Frame
from replayer.follow.tail import Ended, Tail
from whole_model.model_run import BrokenPromiseError, Run, ensure

ITERATORS_MAX = 3


class View:
    """An open Timeline. It must show what was acknowledged when it read the files last."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.known, self.last = run.acknowledged, run.last
        self.sealed, self.resumes = run.sealed, run.resumes
        self.timeline = replayer.Timeline(run.path, world=run.rules.make)  # Cut tapes are opened on purpose.
        self.held: list[Iterator[Any]] = []

    def attempt(self, action: Callable[[], Any], tick: int | None = None) -> Any:
        """Do it. A documented error is allowed if the tick need not be readable; other errors are passed on."""
        try:
            return action()
        except DesyncError as error:
            raise BrokenPromiseError(f"a sound run is accused: {error}") from error
        except RecordingError as error:
            if tick is None:
                may = self.run.is_damaged or self.run.is_lossy or self.known < 0
            else:
                # A resume has written a further keyframe of its tick, which this reader finds when it refreshes.
                may = self.run.is_damaged and self.resumes != self.run.resumes
                may |= not self.run.is_required(tick, self.known, self.last)
            if not may:
                raise BrokenPromiseError(f"tick {tick}, of {self.known}: {type(error).__name__}: {error}") from error
            return None

    def tick(self, numbers: random.Random) -> int:
        """A tick to ask for: most are on the tape."""
        return numbers.randint(0, max(self.known, 0) + 2 * (numbers.random() < 0.05))

    def seek(self, numbers: random.Random) -> None:
        """Go to a tick."""
        self._go(self.tick(numbers))

    def scrub(self, numbers: random.Random) -> bool:
        """Go to a tick near the present one."""
        near = self.timeline.tick or 0
        self._go(min(max(0, near + numbers.randint(-5, 5)), max(0, self.known)))
        return True

    def _go(self, tick: int) -> None:
        report = self.attempt(lambda: self.timeline.seek(tick), tick)
        if report is not None:
            ensure(report.tick == tick == self.timeline.tick, f"seek({tick}) went to {self.timeline.tick}")
            self.run.ensure_state(tick, self.timeline.state, report.state_hash)

    def at(self, numbers: random.Random) -> None:
        """Read a state."""
        tick = self.tick(numbers)
        state = self.attempt(lambda: self.timeline.at(tick), tick)
        if state is not None:
            self.run.ensure_state(tick, state)

    def move(self, numbers: random.Random) -> bool:
        """Step on, or back; False before the first seek."""
        if self.timeline.tick is None:
            return False
        by = numbers.choice([1, -1])
        tick = self.timeline.tick + by
        report = self.attempt(self.timeline.step if by == 1 else self.timeline.step_back, tick)
        if report is not None:
            ensure(report.tick == tick, f"a step of {by} went to {report.tick} in place of {tick}")
            self.run.ensure_state(tick, self.timeline.state, report.state_hash)
        return True

    def frame(self, numbers: random.Random) -> bool:
        """Read a frame; False for a tick that has none."""
        tick = self.tick(numbers)
        first = self.attempt(lambda: self.timeline.first_tick)
        if first is None or tick <= first:
            return False
        # Of a damaged tape a tick may be readable by its keyframe alone.
        frame = self.attempt(lambda: self.timeline.tape.frame(tick), None if self.run.is_damaged else tick)
        if frame is not None:
            self.run.ensure_frame(tick, frame)
        return True

    def facts(self, numbers: random.Random) -> None:  # noqa: ARG002 - as the others
        """Compare first and last tick, status and what is said to be missing."""
        tape, run = self.timeline.tape, self.run
        last = self.attempt(lambda: tape.last_tick)
        if last is None:
            return
        first = tape.first_tick
        ensure(last <= run.last, f"the last tick is {last}, the run has {run.last}")
        if run.is_damaged or run.is_lossy:
            ensure(tape.status in ("not checked", "intact", "incomplete", "corrupt"), tape.status)
            self.attempt(tape.missing_ticks)
            return
        ensure(last >= self.known, f"the last tick is {last}, {self.known} was acknowledged")
        ensure(first <= run.first_required(self.last), f"the first tick is {first}, {self.known} was acknowledged")
        ensure(not tape.missing_ticks(), f"missing: {tape.missing_ticks()}")
        good = {"not checked", "intact"} if self.sealed else {"not checked", "intact", "incomplete"}
        ensure(tape.status in good, f"{tape.status}, {tape.damages}")
        ensure(not tape.drops, f"drops {tape.drops}")

    def walk_keyframes(self, numbers: random.Random) -> None:
        """Begin to walk over keyframes, frames, events or states; the walk goes on between other operations."""
        tape, tick = self.timeline.tape, self.tick(numbers)
        walks: list[Callable[[], Iterator[Any]]] = [
            lambda: self._keyframes(tick),
            lambda: self._frames(tick),
            lambda: self._states(tick),
        ]
        if tape.has_events:
            walks.append(lambda: iter(tape.events(tick)))
        self.held = [*self.held, numbers.choice(walks)()][-ITERATORS_MAX:]

    def _keyframes(self, tick: int) -> Iterator[None]:
        tape = self.timeline.tape
        for place in tape.keyframes_at_or_before(tick):
            state = self.attempt(lambda place=place: tape.snapshot(place), -1 if self.run.is_damaged else place.tick)
            if state is not None:
                self.run.ensure_state(place.tick, state)
            yield

    def _frames(self, tick: int) -> Iterator[None]:
        recording = self.timeline.tape.recording
        for run in recording.runs(tick + 1, max(self.known, tick + 1)):
            for frame in run.frames:
                self.run.ensure_frame(frame.tick, frame)
            yield

    def _states(self, tick: int) -> Iterator[None]:
        states = self.attempt(lambda: self.timeline[tick:])
        for number in states.ticks if states is not None else ():
            state = self.attempt(lambda number=number: self.timeline.at(number), number)
            if state is not None:
                self.run.ensure_state(number, state)
            yield

    def go_on(self, numbers: random.Random) -> bool:
        """Continue a walk that was begun; False if there is none."""
        if not self.held:
            return False
        number = numbers.randrange(len(self.held))
        for _ in range(numbers.randint(1, 4)):
            try:
                next(self.held[number])
            except (StopIteration, MissingTickError):
                del self.held[number]
                break
        return True

    def check(self, numbers: random.Random) -> None:  # noqa: ARG002
        """Read each block."""
        problems = self.attempt(self.timeline.tape.check_blocks)
        ensure(self.run.is_damaged or not problems, f"check_blocks of an undamaged tape: {(problems or [])[:3]}")

    def distrust(self, numbers: random.Random) -> None:  # noqa: ARG002
        """Find the blocks by their headers."""
        self.attempt(self.timeline.tape.distrust_index)

    def events(self, numbers: random.Random) -> None:  # noqa: ARG002
        """Compare the events with the number of ants."""
        if self.run.kind == "ants":
            for tick, event in self.timeline.tape.events():
                ensure(tick <= self.run.last, f"events of tick {tick}")
                count = len(self.run.states[tick]["ages"])
                ensure(event == {"kind": "many", "count": count}, f"tick {tick}: {event}, {count} is right")

    def refresh(self, numbers: random.Random) -> None:  # noqa: ARG002
        """Read the files again."""
        run = self.run
        while run.successor is not None:
            run = run.successor
        known, last, sealed = run.acknowledged, run.last, run.sealed
        try:
            is_done = self.attempt(lambda: self.timeline.tape.refresh() is None)
        except FileNotFoundError:
            ensure(run.gone or run.is_damaged, "the files are not found")
            return
        if is_done:
            if run is not self.run:
                self.held = []  # Walks over the run before, which may give more of what they have read of it.
            self.run, self.known, self.last, self.sealed = run, known, last, sealed
            self.resumes = run.resumes

    def verify(self, numbers: random.Random) -> None:  # noqa: ARG002
        """Simulate all of it again."""
        run, known = self.run, self.run.acknowledged
        try:
            report = self.attempt(self.timeline.verify)
        except FileNotFoundError:
            ensure(run.gone or run.is_damaged, "the files are not found")
            return
        if report is None:
            return
        ensure(report.first_bad is None and not report.findings, f"a sound run is accused at tick {report.first_bad}")
        if not run.is_damaged and not run.is_lossy:
            ensure(report.ok, f"not ok: {report.problems}, {report.unreached}")
            ensure(report.verified_ticks > known - run.first_required(run.last), f"{report.verified_ticks} verified")

    def close(self) -> None:
        """Close it."""
        self.timeline.close()


class TailView:
    """A Tail: each tick comes once, in order, as it was recorded."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.tail = Tail(run.path)
        self.next_tick: int | None = None
        self.ended = False

    def poll(self) -> None:
        """Read on, and compare."""
        run = self.run
        while run.successor is not None:  # What a resume cut off was never complete for a tail.
            self.run = run = run.successor
        try:
            for item in self.tail.news():
                if isinstance(item, Frame):
                    ensure(
                        self.next_tick in (None, item.tick) or run.is_damaged or run.is_lossy or run.is_ring,
                        f"the tail gives tick {item.tick}, {self.next_tick} is next",
                    )
                    if (
                        item.tick <= run.last or not run.is_damaged
                    ):  # Else it is in a file that was removed, and is open.
                        run.ensure_frame(item.tick, item)
                    self.next_tick = item.tick + 1
                elif isinstance(item, Ended):
                    ensure(run.sealed or run.may_be_sealed, "the tail ended, the run was not closed")
                    self.ended = True
        except (RecordingError, FileNotFoundError) as error:
            ensure(run.is_damaged or run.gone, f"the tail: {type(error).__name__}: {error}")
            return
        if not (run.is_damaged or run.is_lossy or run.gone):
            ensure(self.ended or not run.sealed, "the run was closed, the tail did not end")
            known = self.next_tick if self.next_tick is not None else run.first_required(run.last) + 1
            ensure(known > run.acknowledged, f"the tail knows the ticks before {known}")

    def close(self) -> None:
        """Close it."""
        self.tail.close()
