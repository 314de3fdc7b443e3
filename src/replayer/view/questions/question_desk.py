"""The questions of the pages, in the server: who asked, the process that answers, and the answer on its way back.

Invariants:
    1. A page has one question at a time: a newer one ends the one before.
    2. A page that goes leaves no process behind, and no branch that is not complete.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import threading
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol

from recorder.errors import RecordingError
from recorder.location.tape_location import Location
from recorder.processes.worker_pipes import starting
from recorder.storage.file_names import following_segments, journal_path, segment_path
from replayer.tape.tape import Tape
from replayer.view.questions.page_questions import BranchQuestion, Question, parse_question
from replayer.view.questions.question_process import Answered, AnswerProgress, answer_questions

END_S = 3.0  # So long a branch under way gets to remove its tape.
NUMBERS_MAX = 10_000
LOST = "the process that looked for the answer has ended; see its output in the terminal"

Tell = Callable[[dict[str, Any]], None]  # Sends JSON to the page.


class AskedTape(Protocol):
    """A tape that questions are about."""

    path: Location
    sim: str | None


class QuestionDesk:
    """The questions of one page.

    tell: sends a message to the page. on_branch: called with the parent's tape and that of a branch that was recorded;
        returns where both are shown.
    """

    def __init__(self, tell: Tell, on_branch: Callable[[Location, Path], str]) -> None:
        self._tell, self._on_branch = tell, on_branch
        self._asker: _Asker | None = None
        self._number: int | None = None  # Of the question that is being answered.

    def ask(
        self, number: int, tape: AskedTape, ticks: tuple[int, int], message: Mapping[str, Any], *, writes: bool
    ) -> None:
        """Answer a question of the page about a tape. number: the page's own, which the answer repeats.

        ticks: the first and the last one that the page may know of. writes: branches may be recorded.
        """
        self.cancel()
        try:
            question = parse_question(
                message,
                *ticks,
                branch_path(tape.path, message.get("at")) if writes and isinstance(tape.path, Path) else None,
            )
        except ValueError as error:
            self._tell({"kind": "answer", "id": number, "facts": {"error": str(error)}})
            return
        if self._asker is None or self._asker.tape is not tape:
            self._end()
            self._asker = _Asker(tape, self._heard)
        self._number = number
        self._asker.ask(question)

    def cancel(self) -> None:
        """Give up the question that is being answered, if there is one."""
        if self._number is not None:
            self._number = None
            self._end()

    def close(self) -> None:
        """The page has gone."""
        self._number = None
        self._end()

    def _end(self) -> None:
        if self._asker is not None:
            self._asker.end()
            self._asker = None

    def _heard(self, asker: _Asker, message: object) -> None:
        if asker is not self._asker or self._number is None:
            return
        number = self._number
        match message:
            case AnswerProgress(share):
                self._tell({"kind": "answer", "id": number, "share": share})
            case Answered(facts):
                self._number = None
                target = facts.pop("target", None)
                if target is not None:
                    facts["address"] = self._on_branch(asker.tape.path, Path(target))
                self._tell({"kind": "answer", "id": number, "facts": facts})
            case _:  # It has ended.
                self._number, self._asker = None, None
                self._tell({"kind": "answer", "id": number, "facts": {"error": LOST}})


class _Asker:
    """A process that answers the questions about one tape."""

    def __init__(self, tape: AskedTape, heard: Callable[[_Asker, object], None]) -> None:
        self.tape, self._heard = tape, heard
        self._loop = asyncio.get_running_loop()
        self._writes = False
        self._target: Path | None = None
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process: BaseProcess = context.Process(
            target=answer_questions, args=(os.getpid(), theirs, tape.path, tape.sim)
        )
        with starting():
            self._process.start()
        theirs.close()
        threading.Thread(target=self._listen, args=(self._pipe,), daemon=True).start()

    def ask(self, question: Question) -> None:
        self._writes = isinstance(question, BranchQuestion)
        self._target = question.target if isinstance(question, BranchQuestion) else None
        with contextlib.suppress(OSError):  # The process has ended, which _listen tells.
            self._pipe.send(question)

    def _listen(self, pipe: Connection) -> None:
        """In a thread: pass what the process says to the event loop, until it ends."""
        with contextlib.suppress(RuntimeError):  # The event loop has ended.
            try:
                while True:
                    message = pipe.recv()
                    self._loop.call_soon_threadsafe(self._heard, self, message)
            except (EOFError, OSError):
                self._loop.call_soon_threadsafe(self._heard, self, None)

    def end(self) -> None:
        """End the process. One that writes a branch removes it first."""
        if not self._writes:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            return
        with contextlib.suppress(OSError):
            self._pipe.send(None)
        threading.Thread(target=self._end_slowly, daemon=False).start()

    def _end_slowly(self) -> None:
        self._process.join(END_S)
        self._process.kill()  # Within a long step, it answers nothing.
        self._process.join()
        self._pipe.close()
        # Killed here, or by its system with the thread that started it, it has removed nothing.
        if self._process.exitcode != 0 and self._target is not None and not _is_complete(self._target):
            remove_tape(self._target)


def _is_complete(path: Path) -> bool:
    try:
        with Tape(path) as tape:
            return tape.sealed
    except (OSError, RecordingError):
        return False


def remove_tape(path: Path) -> None:
    """Remove the files of a tape that a killed process was making."""
    others = following_segments(path) if path.exists() else []
    for file in (*(segment_path(path, number) for number in reversed(others)), journal_path(path), path):
        file.unlink(missing_ok=True)


def branch_path(tape: Path, tick: object) -> Path:
    """A file that is not there yet, in the folder of the tape, for a branch that leaves it at a tick."""
    stem = f"{tape.stem}-at-{tick}" if isinstance(tick, int) else tape.stem
    names = (f"{stem}{f'-{number}' if number > 1 else ''}.tape" for number in range(1, NUMBERS_MAX))
    return next((path for name in names if not os.path.lexists(path := tape.with_name(name))), tape)
