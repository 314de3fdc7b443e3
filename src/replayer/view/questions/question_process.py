"""The process that answers the questions of one page about one tape, one after the other.

It is a process of its own, since an answer may need all steps of the run: the page goes on meanwhile, and a question that is
not wanted any more ends with its process. A branch under way is told to end, and leaves no tape.
"""

from __future__ import annotations

import time
from multiprocessing.connection import Connection
from typing import Any

import attrs

from recorder.errors import RecordingError
from recorder.exception_text import raised_text
from recorder.factory_spec import load_factory
from recorder.location.tape_location import Location
from recorder.processes.worker_pipes import begin_as_worker
from replayer.playback.cursor import MismatchError
from replayer.playback.make_simulation import Factory
from replayer.playback.sampled_states import Missing
from replayer.report.last_write_text import write_headline, write_lines
from replayer.reshape.branch_tape import BranchedInputs, branch_tape
from replayer.search.last_write import WriteSearch
from replayer.search.watched_value import ABSENT, watched_value
from replayer.timeline.timeline import Timeline
from replayer.value_text import tick_range
from replayer.view.questions.page_questions import BranchQuestion, FindQuestion, Question, WhoQuestion
from replayer.view.states.page_json import page_text

TELL_S = 0.15
RANGES_MAX = 2000

Facts = dict[str, Any]


@attrs.frozen
class AnswerProgress:
    """From the process: the share of the work that is done, from 0 to 1."""

    share: float


@attrs.frozen
class Answered:
    """From the process: the answer as JSON."""

    facts: Facts


def answer_questions(parent: int, pipe: Connection, path: Location, sim: str | None) -> None:
    """Answer questions until the server closes the pipe. parent: the server's process id."""
    begin_as_worker(parent)
    asked: _Asked | None = None
    try:
        while True:
            question: Question | None = pipe.recv()
            if question is None:
                return
            try:
                asked = asked or _Asked(path, load_factory(sim) if sim is not None else None, pipe)
                facts = asked.answer(question)
            except (EOFError, BrokenPipeError):
                raise
            except (RecordingError, OSError, ValueError, LookupError, TypeError) as error:
                facts = {"error": page_text(str(error.args[0]) if isinstance(error, LookupError) else str(error), 600)}
            except Exception as error:  # noqa: BLE001 - the user's simulation may raise anything
                facts = {"error": page_text(raised_text("the simulation", error), 600)}
            pipe.send(Answered(facts))
    except (EOFError, BrokenPipeError):
        return  # The answer is not wanted any more, or the server has ended.


class _Asked:
    """One tape, and who is told of the progress."""

    def __init__(self, path: Location, factory: Factory | None, pipe: Connection) -> None:
        self._path, self._factory, self._pipe = path, factory, pipe
        self._run = Timeline(path, factory)
        self._told_s = 0.0

    def answer(self, question: Question) -> Facts:
        """The answer. Raises as the commands of these names do, EOFError if it is not wanted any more."""
        if not self._run.tape.sealed:
            self._run.tape.refresh()
        match question:
            case FindQuestion():
                return self._find(question)
            case WhoQuestion():
                return self._who(question)
            case BranchQuestion():
                return self._branch(question)

    def _tell(self, done: int, total: int) -> None:
        """Tell the progress now and then; end where the server has closed the pipe."""
        if self._pipe.poll(0):
            raise EOFError("the answer is not wanted any more")
        now_s = time.monotonic()
        if now_s - self._told_s > TELL_S:
            self._told_s = now_s
            self._pipe.send(AnswerProgress(done / max(1, total)))

    def _find(self, question: FindQuestion) -> Facts:
        first, last = question.first, question.last
        if question.way == "next":
            first = question.tick + 1
        elif question.way == "before":
            last = question.tick - 1
        which: Any = {"next": "first", "before": "last", "all": "all"}[question.way]
        facts: Facts = {"what": "find", "condition": page_text(question.condition), "way": question.way, "tick": None}
        if first > last:
            side = "after" if question.way == "next" else "before"
            return {**facts, "ranges": [], "proved": True, "text": [f"there is no tick {side} tick {question.tick:,}"]}
        found = self._run.finder(question.condition).find(which, first, last, progress=self._tell)
        asked = tick_range(first, last)
        if question.way == "all":
            text = [f"holds at {len(found.ticks):,} of {asked}" if found.ticks else f"holds at no tick of {asked}"]
        elif found.ticks:
            facts["tick"] = found.ticks[0]
            text = [f"holds at tick {found.ticks[0]:,}"]
        else:
            text = [f"holds at no tick of {asked}"]
        if found.undefined:
            text.append(f"without a value at {found.undefined:,}: {found.undefined_why}")
        text += [f"not known at {_where(one)}: {one.why}" for one in found.missing[:4]]
        ranges = [list(one) for one in found.ranges[:RANGES_MAX]] if question.way == "all" else []
        return {**facts, "ranges": ranges, "proved": found.is_proved, "text": list(map(page_text, text))}

    def _who(self, question: WhoQuestion) -> Facts:
        watched = watched_value(question.value, question.row, question.entity)
        try:
            write = WriteSearch(self._run.tape, self._run.counted_cursor, watched).last(question.tick, self._tell)
        except MismatchError as mismatch:
            raise self._run.desync(mismatch) from None
        headline = write_headline(write, self._run.first_tick)
        lines = write_lines(write, self._run.first_tick)[1:]
        goes_on = write.tick is not None and write.before is not ABSENT and write.tick > self._run.first_tick + 1
        return {
            "what": "who",
            "value": question.value,
            "row": question.row,
            "entity": question.entity,
            "tick": write.tick,
            "earlier": write.tick - 1 if goes_on and write.tick is not None else None,
            "title": page_text(headline),
            "text": [page_text(line.strip(), 600) for line in lines],
        }

    def _branch(self, question: BranchQuestion) -> Facts:
        given = BranchedInputs(instead=question.inputs, source="inputs")
        ways: Any = {"until": question.until, "parent_world": self._factory, "world": self._factory}
        report = branch_tape(self._path, question.target, question.at, given, **ways, progress=self._tell)
        return {
            "what": "branch",
            "name": page_text(report.path.name),
            "at": report.fork_tick,
            "first_different": report.first_different,
            "target": str(report.path),
            "text": [
                tick_range(report.first_tick, report.last_tick),
                *([report.comparison] if report.comparison else []),
            ],
        }


def _where(one: Missing) -> str:
    return tick_range(one.first_tick, one.last_tick)
