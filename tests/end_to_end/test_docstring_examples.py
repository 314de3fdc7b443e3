"""The examples in docstrings print what they show, with the classes and the tape of docs/reference/index.md."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from project_paths import ROOT

MODULES = ("sim", "sim.adapters", "recorder", "replayer")
PREPARED = re.search(
    r"^```python\n(.+?)^```", (ROOT / "docs/reference/index.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)


def examples() -> dict[str, doctest.DocTest]:
    """Return the public names whose docstrings have examples."""
    found = {}
    for module in MODULES:
        for name in importlib.import_module(module).__all__:
            text = getattr(importlib.import_module(module), name).__doc__ or ""
            parsed = doctest.DocTestParser().get_doctest(text, {}, f"{module}.{name}", None, None)
            if parsed.examples:
                found[parsed.name] = parsed
    return found


EXAMPLES = examples()


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.share(0.22)
def test_an_example_prints_what_it_shows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty folder, with the tape of the page."""
    assert PREPARED is not None
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "examples"}
    exec(PREPARED[1], names)
    printed: list[str] = []
    EXAMPLES[name].globs = names
    result = doctest.DocTestRunner().run(EXAMPLES[name], out=printed.append)
    assert (result.failed, "".join(printed)) == (0, "")


def test_the_names_that_are_used_first_have_an_example() -> None:
    """Those of the record and the seek, and of a simulation's state."""
    assert {"recorder.record", "recorder.Recorder", "recorder.resume", "replayer.open", "replayer.verify_tape"} < set(
        EXAMPLES
    )
    assert {"sim.State", "sim.Schema", "sim.RandomStream"} < set(EXAMPLES)
