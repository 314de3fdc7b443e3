"""What must hold for every state that a power cut may leave of a tape's files, whatever the program was doing."""

from __future__ import annotations

import random
import shutil
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

import replayer
from recorder import resume
from recorder.errors import CorruptError, MissingTickError, UnreadableError
from recorder.format.recording.assembly import NOT_CHECKED, Assembled
from recorder.storage.open_tape import OpenTape
from replayer.repair.repair import repair_tape
from replayer.repair.repair_report import NothingToRepairError

from disk.cut_programs import TAPE, Live, Recording, inputs_at, live_run, quiet, recorded
from disk.file_calls import Call, Calls
from disk.power_model import Disk, State
from oracle.power_cuts import Adder

MORE_TICKS = 3  # Recorded after a resume, to see that the run goes on.


@attrs.define
class Truth:
    """What happened until a power cut.

    Attributes:
        begins: the first tick of each timeline.
        stepped: the last tick whose step has returned, or may have.
        durable: the last tick that was acknowledged as durable; -1 for none.
        sealing, sealed: close has begun, has returned.
        whole: names of complete tapes.
    """

    begins: dict[int, int] = attrs.field(factory=dict)
    stepped: int = 0
    durable: int = -1
    sealing: bool = False
    sealed: bool = False
    whole: set[str] = attrs.field(factory=set)

    def note(self, mark: tuple[str, Any], timeline: int) -> None:
        """A mark of a program whose inputs are of this timeline."""
        match mark:
            case "resumed", tick:
                self.begins[timeline] = tick + 1
                self.stepped, self.sealing, self.sealed = tick, False, False
            case "stepped", tick:
                self.stepped = tick
            case "durable", tick:
                self.durable = tick
            case "sealing", _:
                self.sealing = True
            case "sealed", tick:
                self.sealed, self.durable = True, tick
            case "whole", name:
                self.whole.add(name)
            case "removed", _:
                self.durable = -1

    def live(self, more: int = 1) -> Live:
        """Inputs and hashes by tick, with more ticks than have been recorded."""
        return live_run(tuple(self.begins.items()), self.stepped + more)


@attrs.frozen
class Broken:
    """A promise that a state breaks."""

    what: str
    call: int
    state: State


def check_reading(folder: Path, truths: Sequence[Truth], *, syncs: bool, is_ring: bool) -> str | None:
    """Read the tape as it is; return the broken promise. truths: it must agree with one of these."""
    problems = [_disagreement(folder, truth, is_ring=is_ring) for truth in truths]
    if None in problems:
        return None
    return problems[-1] if syncs or "not what was" in str(problems[-1]) else None


def _disagreement(folder: Path, truth: Truth, *, is_ring: bool) -> str | None:
    for name in sorted(truth.whole):
        if not (folder / name).exists():
            return f"{name} is gone, it was complete"
    path = folder / TAPE
    if not path.exists():
        return None if truth.durable < 0 else f"no tape, tick {truth.durable} was durable"
    try:
        with OpenTape(path) as opened:
            return _compare(opened.assemble(), truth, is_ring=is_ring)
    except UnreadableError as error:
        return None if truth.durable < 0 else f"{error}, tick {truth.durable} was durable"


def _compare(assembled: Assembled, truth: Truth, *, is_ring: bool) -> str | None:
    recording, live = assembled.recording, truth.live()
    if assembled.status == "corrupt":
        return f"called corrupt: {assembled.damages}, missing segments {assembled.missing_segments}"
    if assembled.status == NOT_CHECKED and not truth.sealing:
        return "called whole, it was never sealed"
    if truth.sealed and assembled.status != NOT_CHECKED:
        return f"called {assembled.status}: {assembled.damages}, it was sealed"
    if not recording.keyframes:
        return None if truth.durable < 0 else f"no keyframe, tick {truth.durable} was durable"
    for place in recording.keyframes:
        if place.tick not in live or recording.snapshot(place).hash() != live[place.tick][1]:
            return f"the keyframe of tick {place.tick} is not what was recorded"
    first, last = recording.first_tick, recording.last_tick
    missing = {tick for begin, end in recording.missing_ticks() for tick in range(begin, end + 1)}
    if missing and min(missing) <= truth.durable:
        return f"tick {min(missing)} is missing, tick {truth.durable} was durable"
    for tick in range(first + 1, last + 1):
        if tick not in missing:
            frame = recording.frame(tick)
            if (frame.inputs, frame.state_hash) != live.get(tick):
                return f"tick {tick} is not what was recorded"
    if last < truth.durable:
        return f"ends at tick {last}, tick {truth.durable} was durable"
    if assembled.status == NOT_CHECKED and (missing or last != truth.stepped):
        return f"called whole, and ends at tick {last} of {truth.stepped}, without {missing}"
    return None if is_ring or first == 0 else f"begins at tick {first}"


def check_resuming(folder: Path, durable: int) -> str | None:
    """Resume the tape with inputs of a timeline of its own, seal it and verify it; return the broken promise.

    Before anything is forced to the disk, the first page may be lost and the last one there: to be repaired, resume says.
    """
    if not (folder / TAPE).exists():
        return None
    with quiet():
        try:
            tape = resume(folder / TAPE, Adder())
        except (UnreadableError, MissingTickError, CorruptError) as error:
            return None if durable < 0 else f"resume raised {error}, tick {durable} was durable"
        reached = tape.tick
        if reached < durable:
            return f"resumed at tick {reached}, tick {durable} was durable"
        for tick in range(reached + 1, reached + 1 + MORE_TICKS):
            tape.step(inputs_at(tick, 99))
        tape.close()
    return _verified(folder / TAPE, reached + MORE_TICKS)


def _verified(path: Path, last: int | None = None) -> str | None:
    with replayer.open(path, world=Adder) as timeline:
        report = timeline.verify()
        if not report.ok or (last is not None and timeline.last_tick != last):
            return f"{path.name}, then: {report}"
    return None


def check_repairing(folder: Path, durable: int, *, is_ring: bool) -> str | None:
    """Repair the tape; return the broken promise. The original stays as it is."""
    if not (folder / TAPE).exists():
        return None
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    try:
        repair_tape(folder / TAPE, folder / "repaired.tape", Adder)
    except (UnreadableError, NothingToRepairError) as error:
        return None if durable < 0 else f"repair raised {error}, tick {durable} was durable"
    after = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    if {name: data for name, data in after.items() if name != "repaired.tape"} != before:
        return "repair changed the original"
    return _agrees_when_verified(folder / "repaired.tape", durable, is_ring=is_ring)


def _agrees_when_verified(path: Path, durable: int, *, is_ring: bool) -> str | None:
    with (
        quiet(),
        replayer.open(path, world=Adder) as timeline,
    ):  # What was not durable may be missing: a warning says so.
        if timeline.last_tick < durable:
            return f"{path.name} ends at tick {timeline.last_tick}, tick {durable} was durable"
        if not is_ring and timeline.first_tick:
            return f"{path.name} begins at tick {timeline.first_tick}"
        report = timeline.verify()
        return None if report.first_bad is None else f"{path.name}: {report}"


@attrs.define
class Cuts:
    """Cuts the power during programs, at every call, and checks what is left.

    Attributes:
        states_max: states at one call; all of them if there are not more.
        numbers: decides where there are more, and which states are resumed and repaired.
        further: the share of the states that are also resumed or repaired.
        calls_max: the power is cut after so many calls of a program, drawn by chance; None is all of them.
        states, different, calls, whole_calls, resumed: counts of what was done: states, those that were read, calls at
            which the power was cut, those of them at which all states were tried, states that were resumed or repaired.
    """

    folder: Path
    states_max: int
    numbers: random.Random
    further: float = 0.1
    calls_max: int | None = None
    states: int = 0
    different: int = 0
    calls: int = 0
    whole_calls: int = 0
    resumed: int = 0

    def during(
        self, calls: Calls, disk: Disk, check: Callable[[Path, State], str | None], note: Callable[[Call], None]
    ) -> Iterator[Broken]:
        """Cut the power after each call; yield what is broken. note: takes each call before the cut."""
        places = range(len(calls.calls))
        chosen = set(
            places if self.calls_max is None else self.numbers.sample(places, min(self.calls_max, len(places)))
        )
        seen: set[object] = set()
        for number, call in enumerate(calls.calls):
            disk.apply(call)
            note(call)
            if call.kind == "mark":
                seen.clear()  # More is promised from now on.
            if number not in chosen:
                continue
            self.calls += 1
            self.whole_calls += disk.has_at_most(self.states_max)
            for state in disk.states(self.states_max, self.numbers):
                self.states += 1
                if state.key in seen:
                    continue
                seen.add(state.key)
                self.different += 1
                what = self._checked(state, check)
                if what is not None:
                    yield Broken(what, number, state)

    def _checked(self, state: State, check: Callable[[Path, State], str | None]) -> str | None:
        place = self.folder / "cut"
        place.mkdir()
        try:
            state.write(place)
            return check(place, state)
        except Exception:  # noqa: BLE001 - any exception of the program under test is a broken promise
            return traceback.format_exc()
        finally:
            shutil.rmtree(place)

    def recording(self, program: Recording, name: str = "live") -> Iterator[Broken]:
        """Cut the power during one recording."""
        calls = recorded(program, self.folder / name)
        shutil.rmtree(self.folder / name)
        truth = Truth()
        yield from self._tape_cuts(program, calls, Disk(calls.start), truth, [truth])

    def resuming(self, program: Recording, at: int, how: str) -> Iterator[Broken]:
        """End a recording at call number at, by a kill or a power cut, resume it, and cut the power during that.

        After a kill, what the first process had not synced is still on its way to the disk.
        """
        calls = recorded(program, self.folder / "live")
        shutil.rmtree(self.folder / "live")
        disk, before = Disk(calls.start), Truth()
        for call in calls.calls[:at]:
            disk.apply(call)
            if call.kind == "mark":
                before.note(call.mark, 0)
        state = disk.after_kill() if how == "kill" else next(disk.states(1, self.numbers))
        state.write(self.folder / "again")
        further = attrs.evolve(program, timeline=1, removed_at=-1, written_out_at=-1)
        try:
            again = recorded(further, self.folder / "again")
        except (UnreadableError, MissingTickError, FileNotFoundError):
            return  # Nothing was durable; check_resuming has looked at that.
        finally:
            shutil.rmtree(self.folder / "again")
        if how == "kill":
            later = disk.renumbered(again)
        else:
            disk, later = Disk(again.start), again.calls
        before.sealed = False  # A resume appends: until it is sealed again, the tape is incomplete.
        after = attrs.evolve(before, begins=dict(before.begins), whole=set(before.whole))
        after.whole = before.whole = set()
        again.calls = later
        yield from self._tape_cuts(further, again, disk, after, [before, after])

    def _tape_cuts(
        self, program: Recording, calls: Calls, disk: Disk, truth: Truth, truths: list[Truth]
    ) -> Iterator[Broken]:
        syncs, is_ring = program.options.get("sync") != "never", "keep" in program.options

        def check(place: Path, _: State) -> str | None:
            what = check_reading(place, truths, syncs=syncs, is_ring=is_ring)
            if what is None and self.numbers.random() < self.further:
                self.resumed += 1
                durable = min(one.durable for one in truths) if syncs else -1
                if self.numbers.random() < 0.3:
                    return check_repairing(place, durable, is_ring=is_ring)
                return check_resuming(place, durable)
            return what

        def note(call: Call) -> None:
            if call.kind == "mark":
                truth.note(call.mark, program.timeline)
                if call.mark[0] in {"durable", "sealed"}:
                    truths[:] = [truth]  # The run as it was before a resume is no longer enough.

        yield from self.during(calls, disk, check, note)
