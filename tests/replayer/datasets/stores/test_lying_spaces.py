"""Environments whose spaces lie, and values of every kind: extracted in each format, or refused in one line that helps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optional_packages import needs

import recorder
import replayer.commands.main
from replayer.datasets.extract import extract
from replayer.datasets.request import ExtractionError

from oracle.command_lines import assert_one_line, files, run

needs("gymnasium", "pettingzoo", "pyarrow", "zarr", "minari", "h5py", "PIL")

import gymnasium  # noqa: E402
from collected_environments import Camera  # noqa: E402
from environment_runs import recorded  # noqa: E402
from gymnasium import spaces  # noqa: E402

HERE = Path(__file__).stem
FORMATS = ("parquet", "arrow", "zarr", "minari", "lerobot")


class Liar(gymnasium.Env[Any, Any]):
    """Six steps an episode; the observation is that of the subclass."""

    observation_space: Any = spaces.Box(0, 9, (4,))
    action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:  # noqa: ARG002 - Gymnasium passes it
        super().reset(seed=seed)
        self.t = 0
        return self.look(self.t), {}

    def step(self, action: Any) -> Any:  # noqa: ARG002 - only the time passes
        self.t += 1
        return self.look(self.t), 1.0, self.t >= 6, False, {}

    def look(self, t: int) -> Any:
        raise NotImplementedError


class Longer(Liar):
    def look(self, t: int) -> Any:
        return np.zeros(3 if t < 3 else 5)


class Another(Liar):
    def look(self, t: int) -> Any:
        return {"a": 1} if t < 3 else "text"


class Absent(Liar):
    def look(self, t: int) -> Any:
        return None if t % 2 else np.zeros(4, np.float32)


class Imaginary(Liar):
    def look(self, t: int) -> Any:
        return np.array([1j * t, 2, 3, 4])


class Strange(Liar):
    def look(self, t: int) -> Any:  # noqa: ARG002 - always the same kind
        return np.array([object()], dtype=object)


class Raw(Liar):
    def look(self, t: int) -> Any:
        return bytes([t])


class Wider(Liar):
    def look(self, t: int) -> Any:
        return np.full(4, t, np.float32 if t < 4 else np.float64)


class Empty(Liar):
    observation_space = spaces.Box(0, 1, (0, 3))

    def look(self, t: int) -> Any:  # noqa: ARG002 - there is nothing to see
        return np.zeros((0, 3), np.float32)


class Net(Liar):
    """A graph, without a wrapper or an attribute that refers to its class."""

    observation_space = spaces.Graph(spaces.Box(0, 9, (2,)), spaces.Discrete(4))

    def look(self, t: int) -> Any:
        nodes = np.full((t % 3 + 1, 2), t, np.float32)
        return spaces.GraphInstance(nodes, np.array([t % 4]), np.array([[0, 0]]))


LIARS = {one.__name__: one for one in (Longer, Another, Absent, Imaginary, Strange, Raw, Wider, Empty, Net)}
REFUSED = {
    "minari": ("Longer", "Another", "Absent", "Imaginary", "Strange", "Raw", "Net"),
    "lerobot": ("Longer", "Another", "Absent", "Imaginary", "Strange", "Raw", "Net"),
}


def record(name: str) -> Path:
    path = Path(f"{name}.tape")
    env = recorder.record(LIARS[name](), path, quiet=True, trial_ms=0, durability="none")
    for seed in range(2):
        env.reset(seed=seed)
        while not env.step(1)[2]:
            pass
    env.close()
    return path


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


@pytest.mark.share(0.22)
@pytest.mark.parametrize("name", LIARS)
@pytest.mark.seldom(0.15)
def test_it_is_extracted_or_one_line_names_what_helps(name: str, capfd: Any) -> None:
    path = record(name)
    for file_format in FORMATS:
        capfd.readouterr()
        code = run(
            replayer.commands.main.main,
            f"extract {path} -o out-{file_format} -j 1 --format {file_format} --sim {HERE}:{name}",
        )
        if name in REFUSED.get(file_format, ()):
            assert code == 2
            assert_one_line(capfd.readouterr(), "use parquet")
            assert not list(Path().glob(f"out-{file_format}*"))
        else:
            assert code == 0
            assert "transitions: 12 rows" in capfd.readouterr().out


def test_graphs_are_recorded_and_extracted_without_an_option() -> None:
    """An environment that only derives from Gymnasium's refers to Gymnasium's classes; each row equals the loop's."""
    rows = extract(record("Net"), "out", world=Net).table("transitions").to_arrow().to_pylist()
    expected = [(Net().look(t), Net().look(t + 1)) for _ in range(2) for t in range(6)]
    for row, values in zip(rows, expected, strict=True):
        for prefix, value in zip(("obs", "next"), values, strict=True):
            for part in ("nodes", "edges", "edge_links"):
                assert row[f"{prefix}.{part}"] == getattr(value, part).tolist()


def test_objects_as_text_are_the_same_in_each_run() -> None:
    """Without the addresses that Python prints of them."""
    path = record("Strange")
    for name in ("one", "two"):
        table = extract(path, name, world=Strange).table("transitions").to_arrow()
        assert table["obs"].to_pylist() == ['["<object object>"]'] * 12
    assert files(Path("one/transitions")) == files(Path("two/transitions"))


def test_an_environment_without_its_wrapper_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    """Before, the data set had no rows, and all ticks were listed as missing."""
    recorded("camera", tmp_path / "run.tape")
    with pytest.raises(
        ExtractionError, match=r"run.tape: the environment does not take the states of the tape: .*TimeLimit"
    ):
        extract(tmp_path / "run.tape", tmp_path / "set", world=Camera)
    assert [path.name for path in tmp_path.iterdir()] == ["run.tape"]
