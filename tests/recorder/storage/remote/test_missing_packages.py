"""Without the package of a scheme, one line names it and the command that installs it, for this kind of installation."""

from __future__ import annotations

import sys

import pytest

from recorder.errors import UnreadableError
from recorder.storage.remote import file_system
from replayer import Tape
from replayer.commands.main import main
from sim.extras import install_command

from oracle.command_lines import assert_one_line, run


@pytest.mark.parametrize(
    ("scheme", "missing", "package", "extra"),
    [
        ("s3", "s3fs", "s3fs", "s3"),
        ("gs", "gcsfs", "gcsfs", "gs"),
        ("https", "aiohttp", "aiohttp", "https"),
        ("s3", "fsspec.registry", "fsspec", "s3"),
        ("memory", "fsspec.registry", "fsspec", "url"),
    ],
)
def test_the_line_names_what_to_install(
    scheme: str,
    missing: str,
    package: str,
    extra: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if missing != "fsspec.registry":
        pytest.importorskip("fsspec", reason="fsspec is not installed")
    monkeypatch.setattr(file_system, "_file_systems", {})
    for module in [name for name in sys.modules if name.partition(".")[0] in ("s3fs", "gcsfs", "aiohttp")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.delitem(sys.modules, "fsspec.implementations.http", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    command = install_command(extra)

    assert command is not None
    assert package in command
    with pytest.raises(UnreadableError) as caught:
        Tape(f"{scheme}://place/run.tape")
    assert str(caught.value) == f"{scheme}://place/run.tape: {scheme}:// needs {package}: {command}"
    assert run(main, f"info {scheme}://place/run.tape") == 5
    assert_one_line(capsys.readouterr(), f"needs {package}: {command}")
