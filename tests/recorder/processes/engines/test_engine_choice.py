"""The names of engines, and the one line for each that cannot be used. No Ray is started here."""

from __future__ import annotations

import importlib.util
import socket
from pathlib import Path
from typing import Any

import pytest

import replayer.commands.main
from recorder.processes.engines.code_identity import code_identity
from recorder.processes.engines.engine import engine_pool, find_engine
from recorder.processes.engines.engine_error import EngineError
from recorder.processes.engines.ray_engine import RayEngine
from recorder.processes.engines.ray_process import _function
from recorder.processes.engines.ray_start import RaySettings, connected
from replayer.timeline.verify import verify_tape

from oracle.command_lines import run
from small_worlds import Walkers, record


def test_names_of_engines() -> None:
    """An address is all after the first colon."""
    assert find_engine(None) is find_engine("processes") is None
    assert find_engine("ray") == RayEngine()
    assert find_engine("ray:auto") == RayEngine("auto")
    assert find_engine("ray:10.0.0.1:6379") == RayEngine("10.0.0.1:6379")
    engine = RayEngine(workers=3)
    assert find_engine(engine) is engine
    with engine_pool("processes") as pool:
        assert pool is None


@pytest.mark.parametrize("name", ["dask", "", "rays", "ray:", "Ray"])
def test_an_unknown_engine_is_refused(name: str) -> None:
    with pytest.raises(EngineError, match=r"expected processes, ray, or ray:ADDRESS, such as ray:10\.0\.0\.1:6379"):
        find_engine(name)


def test_a_pool_and_an_engine_are_one_too_many() -> None:
    with pytest.raises(ValueError, match="expected an engine or a pool, got both"), engine_pool("ray", other=object()):  # type: ignore[arg-type]
        pass


@pytest.fixture
def tape(tmp_path: Path) -> Path:
    """Ten ticks."""
    record(tmp_path / "run.tape", Walkers(), [[[1, 2]]] * 10)
    return tmp_path / "run.tape"


@pytest.mark.parametrize("engine", ["ray", "ray:10.0.0.1:6379"])
def test_an_engine_that_is_not_installed(
    tape: Path, tmp_path: Path, engine: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line says what installs it; the extraction writes nothing."""
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "ray" else find(name, *more))
    monkeypatch.chdir(tmp_path)
    for line in (f"verify {tape}", f"extract {tape} -o out --field x"):
        assert run(replayer.commands.main.main, f"{line} --sim small_worlds:Walkers --engine {engine}") == 2
        told = capsys.readouterr().err.splitlines()
        assert len(told) == 1
        assert told[0].startswith("error: the engine ray needs ray: pip install ")
        assert "ray>=" in told[0]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.tape"]
    with pytest.raises(EngineError, match="the engine ray needs ray"):
        verify_tape(tape, Walkers, engine=engine)


def test_an_address_at_which_nothing_answers() -> None:
    """Refused at once: Ray would try for a minute."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # It does not listen.
        port = taken.getsockname()[1]
        with (
            pytest.raises(EngineError, match=f"^Ray at 127.0.0.1:{port} cannot be reached: Connection refused$"),
            connected(RaySettings(f"127.0.0.1:{port}", None, None), None),
        ):
            pass


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("127.0.0.1:1", "Ray at 127.0.0.1:1 cannot be reached: Connection refused"),
        ("127.0.0.1", "Ray address '127.0.0.1': expected HOST:PORT, such as 10.0.0.1:6379, or auto"),
        ("//127.0.0.1:1", "ray://127.0.0.1:1: expected HOST:PORT of a cluster that this machine belongs to, or auto"),
    ],
)
def test_commands_say_in_one_line_that_an_address_cannot_be_used(
    tape: Path,
    tmp_path: Path,
    address: str,
    text: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is written. Ray is not imported for it, so it need not be installed."""
    monkeypatch.setattr("recorder.processes.engines.ray_engine.ensure_installed", lambda: None)
    monkeypatch.chdir(tmp_path)
    assert run(replayer.commands.main.main, f"extract {tape} -o out --field x --engine ray:{address}") == 2
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert told[0].startswith(f"error: {text}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.tape"]


@pytest.mark.parametrize("address", ["10.0.0.1", "10.0.0.1:port", "10.0.0.1:0", ":"])
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(EngineError, match="expected HOST:PORT"), connected(RaySettings(address, None, None), None):
        pass


@pytest.mark.parametrize("address", ["ray://10.0.0.1:10001", "https://10.0.0.1:6379"])
def test_an_address_of_another_kind_says_what_to_do(address: str) -> None:
    with (
        pytest.raises(EngineError, match="send the command with ray job submit"),
        connected(RaySettings(address, None, None), None),
    ):
        pass


@pytest.mark.parametrize("name", ["NumPy", "simulation-flight-recorder", "Python"])
def test_a_worker_with_another_version_of_the_code(name: str) -> None:
    """The function that Ray runs compares before it loads anything."""
    expected: dict[str, Any] = {**code_identity(), name: "1.0"}
    ((kind, told),) = _function()({}, expected, "key", b"", [b""], tells_begin=False)
    assert kind == "unfit"
    assert told == f"the worker on {socket.gethostname()} has {name} {code_identity()[name]} instead of 1.0"
