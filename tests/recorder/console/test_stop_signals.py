"""SIGTERM and SIGHUP end any command as Ctrl-C does."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cyclopts import App
from waiting import wait_until

import replayer.commands.extract
import replayer.commands.main
from recorder.console.app import run_app
from recorder.console.stop_signals import heed_signals_again, ignore_further_signals, signals_raised, stop_of

from oracle.command_lines import files, run
from small_worlds import Walkers, record

SENT = [(signal.SIGTERM, "terminated", 143), (signal.SIGHUP, "hung up", 129)]


@pytest.fixture(autouse=True)
def handlers() -> Any:
    """They are as before after each test."""
    before = {number: signal.getsignal(number) for number, _, _ in SENT}
    yield
    assert {number: signal.getsignal(number) for number in before} == before


@pytest.mark.parametrize(("number", "word", "code"), SENT)
def test_a_signal_is_an_interrupt_with_a_name(number: int, word: str, code: int) -> None:
    with pytest.raises(KeyboardInterrupt) as raised, signals_raised():
        os.kill(os.getpid(), number)
    stop = stop_of(raised.value)
    assert (stop.word, stop.exit_code) == (word, code)


@pytest.mark.parametrize(("number", "word", "code"), SENT)
def test_an_error_in_the_course_of_a_stop_is_the_stop(
    number: int, word: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The signal may come while a process is started: its pipe is closed then, and asked whether it has something."""
    app = App()

    @app.default
    def fails() -> None:
        try:
            os.kill(os.getpid(), number)
        finally:
            raise OSError("handle is closed")

    assert run_app(app, []) == code
    assert capsys.readouterr().err == f"error: {word}\n"


def test_a_second_signal_has_no_effect() -> None:
    went_on = []

    def stopped() -> None:
        with signals_raised():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            finally:
                os.kill(os.getpid(), signal.SIGHUP)
                os.kill(os.getpid(), signal.SIGTERM)
                went_on.append(True)

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert went_on


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    """As after nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals_raised():
            os.kill(os.getpid(), signal.SIGHUP)
            ignore_further_signals()
            heed_signals_again()
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_they_are_ignored_for_a_while_and_heeded_again() -> None:
    with signals_raised():
        ignore_further_signals()
        os.kill(os.getpid(), signal.SIGHUP)
        heed_signals_again()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(("number", "word", "code"), SENT)
def test_an_extraction_that_is_stopped_is_continued_by_the_same_command(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: int,
    word: str,
    code: int,
) -> None:
    record(tmp_path / "a.tape", Walkers(), [None] * 60)
    extract = replayer.commands.extract.extract

    def extract_and_stop(*arguments: Any, **wanted: Any) -> Any:
        return extract(*arguments, **{**wanted, "progress": lambda *_: os.kill(os.getpid(), number)})

    command = f"extract {tmp_path}/a.tape -o {tmp_path}/out --sim small_worlds:Walkers --table states"
    with monkeypatch.context() as patch:
        patch.setattr(replayer.commands.extract, "extract", extract_and_stop)
        assert run(replayer.commands.main.main, command) == code
    assert capsys.readouterr().err.splitlines()[-1] == f"error: {word}"
    assert not (tmp_path / "out").exists()
    assert run(replayer.commands.main.main, command) == 0
    assert run(replayer.commands.main.main, command.replace("/out ", "/whole ")) == 0
    assert files(tmp_path / "out") == files(tmp_path / "whole")
    assert not (tmp_path / "out.unfinished").exists()


def test_a_forked_process_is_ended_by_the_signals_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    """As a worker of a pool is: it printed a traceback, or lost a signal that came before it had begun, and hung."""

    def has_ended(child: int) -> bool:
        return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def ended(children: list[int]) -> list[int]:
        codes = []
        for child in children:
            try:
                wait_until(partial(has_ended, child), seconds=20)
            finally:
                os.kill(child, signal.SIGKILL)  # One that has ended keeps its exit code.
            codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        return codes

    def forked(number: int) -> int:
        child = os.fork()
        if child == 0:
            try:
                signal.pause()
            finally:
                os._exit(0)
        os.kill(child, number)
        return child

    with signals_raised():
        sent = [number for number, _, _ in SENT] * 40
        assert ended([forked(number) for number in sent]) == [-number for number in sent]
        ignore_further_signals()
        assert ended([forked(signal.SIGTERM)]) == [-signal.SIGTERM]
        heed_signals_again()
        assert not signal.pthread_sigmask(signal.SIG_BLOCK, ()) & {number for number, _, _ in SENT}
    assert "Traceback" not in capfd.readouterr().err
