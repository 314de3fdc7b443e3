"""The tick is printed as soon as it is known, and the answer as a whole is the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from replayer.commands.first_line import FirstLine

ANSWER = "run.tape: tick 1,007 differs between two variants\n  field x\n"


@pytest.mark.parametrize(
    ("quiet", "stages"), [(False, ["tick 1,007 differs", "tick 1,007: now"]), (True, ["tick 9"]), (False, ["x"])]
)
def test_the_begin_comes_early_and_once(capsys: pytest.CaptureFixture[str], *, quiet: bool, stages: list[str]) -> None:
    """Not for programs, and not before a tick is known."""
    line, shown = FirstLine(Path("run.tape"), quiet=quiet), ""
    with line.status("searching") as show:
        for stage in stages:
            show(stage)
            shown += capsys.readouterr().out
    assert shown == ("run.tape: tick 1,007" if len(stages) > 1 else "")
    line.print(ANSWER.rstrip("\n"))
    assert shown + capsys.readouterr().out == ANSWER


def test_an_error_and_another_tick_have_lines_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    """No line has a tick alone: it says what became of it. The tick of the answer may have more digits."""
    line = FirstLine(Path("run.tape"), quiet=False)
    with pytest.raises(ValueError, match="damaged"), line.status("searching") as show:  # noqa: PT012 - both are of the block
        show("tick 3 differs")
        raise ValueError("damaged")
    assert capsys.readouterr().out == "run.tape: tick 3: the search ended early\n"
    for answer in ("run.tape: every variant verifies all ticks", "run.tape: tick 45 differs between two variants"):
        line = FirstLine(Path("run.tape"), quiet=False)
        with line.status("searching") as show:
            show("tick 4 differs")
        line.print(answer)
        begin = (
            "run.tape: tick 4 differed when the tape was verified in this process; what follows is not about this tick"
        )
        assert capsys.readouterr().out == f"{begin}\n{answer}\n"
