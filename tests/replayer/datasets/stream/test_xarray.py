"""A tape as a lazy xarray data set: slices equal the live run, and no more ticks are simulated than they need."""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from optional_packages import lazily

from recorder.errors import CorruptError, DesyncError, MissingTickError, RecordingError
from replayer.datasets.request import ExtractionError
from replayer.playback.make_simulation import UnfitSimulationError
from sim import Field, Schema, State, Table
from sim.kernel.registry import UnknownWorldError, find_world

from oracle.live_runs import Live, record_live
from small_worlds import Herd, Saved, Walkers

pytestmark = pytest.mark.share(0.18)

xarray = lazily("xarray")

TICKS = 200
INTERVAL = 50


class Counted(Herd):
    """Counts the ticks that it simulates."""

    steps = 0

    def step(self, inputs: Any) -> None:
        type(self).steps += 1
        super().step(inputs)


@pytest.fixture(scope="module")
def herd(tmp_path_factory: Any) -> tuple[Path, Live]:
    path = tmp_path_factory.mktemp("herd") / "herd.tape"
    return path, record_live(path, Herd(3), [None] * TICKS, keyframe_interval_ticks=INTERVAL)


@pytest.fixture(autouse=True)
def no_steps() -> None:
    Counted.steps = 0


def open_herd(path: Path, **settings: Any) -> Any:
    return xarray.open_dataset(path, engine="tape", world=Counted, **settings)


def test_opening_simulates_nothing_and_names_what_there_is(herd: tuple[Path, Live]) -> None:
    with open_herd(herd[0]) as found:
        assert Counted.steps == 0
        assert dict(found.sizes) == {"tick": TICKS + 1, "axis_4": 4, "axis_6": 6}
        assert found["tick"].values.tolist() == list(range(TICKS + 1))
        assert {name: (one.dims, str(one.dtype)) for name, one in found.data_vars.items()} == {
            "own.tick": (("tick",), "int64"),
            "grass": (("tick", "axis_4", "axis_6"), "float32"),
            "rng": (("tick", "axis_4"), "uint64"),
            "animals.count": (("tick",), "int64"),
        }
        assert found.attrs["left_out"] == ["animals.age", "animals.place", "diary"]
        assert (found.attrs["status"], found.attrs["missing_ticks"]) == ("not checked", [])
        assert found.attrs["simulation"] == "small_worlds.Herd"
        assert "grass" in repr(found)
        assert Counted.steps == 0


def test_a_slice_of_one_tick_simulates_from_the_keyframe(herd: tuple[Path, Live]) -> None:
    path, live = herd
    with open_herd(path) as found:
        assert np.array_equal(found["grass"].sel(tick=INTERVAL + 7).values, live[INTERVAL + 7][2]["grass"])
        assert Counted.steps == 7
        assert float(found["grass"].sel(tick=INTERVAL + 9)[2, 3]) == live[INTERVAL + 9][2]["grass"][2, 3]
        assert Counted.steps == 9


def test_variables_at_the_same_ticks_are_simulated_once(herd: tuple[Path, Live]) -> None:
    path, live = herd
    with open_herd(path) as found:
        part = found[["grass", "rng", "own.tick", "animals.count"]].isel(tick=slice(60, 80)).load()
        assert Counted.steps == 29
    assert part["own.tick"].values.tolist() == list(range(60, 80))
    for tick in range(60, 80):
        one = part.sel(tick=tick)
        assert np.array_equal(one["grass"], live[tick][2]["grass"])
        assert np.array_equal(one["rng"], live[tick][2]["rng"])
        assert int(one["animals.count"]) == len(live[tick][2]["animals.age"])


@pytest.mark.parametrize("kept", [0, 5])
def test_states_are_kept_within_bounds_and_the_rest_is_simulated_again(herd: tuple[Path, Live], kept: int) -> None:
    path, live = herd
    state_bytes = len(live[0][1])
    assert len(live[70][1]) < 40 * state_bytes
    with open_herd(path, cache_bytes=kept * len(live[70][1])) as found:
        for name in ("grass", "rng"):
            values = found[name].isel(tick=[*range(60, 80)]).values
            assert all(np.array_equal(values[tick - 60], live[tick][2][name]) for tick in range(60, 80))
        assert 29 < Counted.steps <= 58


def test_any_slice_is_what_numpy_gives(herd: tuple[Path, Live]) -> None:
    path, live = herd
    whole = np.stack([live[tick][2]["grass"] for tick in range(TICKS + 1)])
    numbers = np.random.Generator(np.random.PCG64(3))
    with open_herd(path) as found:
        for key in [
            (slice(None), 0, 0),
            (slice(150, 3, -7), slice(None), 2),
            (-1, slice(1, None, 2), [5, 0]),
            ([7, 7, 199, 3], [0, 3], slice(2, 2)),
            (slice(0, 0),),
            (numbers.integers(0, TICKS, 9).tolist(), [2], [1, 1, 4]),
        ]:
            given = [*key, *[slice(None)] * (3 - len(key))]
            expected = whole
            for axis in (2, 1, 0):  # Axis by axis; the last first, as a number takes its axis away.
                expected = expected[(slice(None),) * axis + (given[axis],)]
            sliced = found["grass"].isel(dict(zip(("tick", "axis_4", "axis_6"), key, strict=False))).values
            assert np.array_equal(sliced, expected), key
            assert sliced.shape == expected.shape
        points = found["grass"].isel(
            tick=xarray.DataArray([5, 60], dims="p"), axis_4=xarray.DataArray([1, 2], dims="p")
        )
        assert np.array_equal(points.values, whole[[5, 60], [1, 2]])


def test_tables_are_padded_where_that_is_asked_for(herd: tuple[Path, Live]) -> None:
    path, live = herd
    most = max(len(state[2]["animals.age"]) for state in live.values())
    with open_herd(path, rows={"animals": most}, drop_variables=["grass"]) as found:
        assert "grass" not in found
        assert found.attrs["left_out"] == ["diary"]
        assert found["animals.place"].dims == ("tick", "animals", "axis_2")
        counts = found["animals.count"].values
        for tick, age in enumerate(found["animals.age"].values):
            assert counts[tick] == len(live[tick][2]["animals.age"])
            assert np.array_equal(age[: counts[tick]], live[tick][2]["animals.age"])
            assert not age[counts[tick] :].any()
    first = next(tick for tick in range(TICKS) if len(live[tick][2]["animals.age"]) == most)
    with (
        open_herd(path, rows={"animals": most - 1}) as found,
        pytest.raises(ExtractionError, match=f'tick {first}: animals has {most} rows: give rows={{"animals": {most}}}'),
    ):
        found["animals.age"].load()


def test_names_of_axes_can_be_given_and_a_world_knows_its_maps(herd: tuple[Path, Live], tmp_path: Path) -> None:
    with open_herd(herd[0], dims={"grass": ("y", "x")}) as found:
        assert found["grass"].dims == ("tick", "y", "x")
    with pytest.raises(ExtractionError, match="expected 2 different names, got"):
        open_herd(herd[0], dims={"grass": ("y", "tick")})
    with pytest.raises(ExtractionError, match="there is no variable gras; variables: "):
        open_herd(herd[0], dims={"gras": ("y", "x")})
    with pytest.raises(ExtractionError, match="there is no table plants; tables: animals"):
        open_herd(herd[0], rows={"plants": 5})
    config = {"grid": {"width": 9, "height": 7}, "flora": [dict(FLORA)], "seed": 3}
    world = find_world("meadow")
    simulation = world.make(config)
    live = record_live(tmp_path / "meadow.tape", simulation, [[]] * 20)
    with xarray.open_dataset(tmp_path / "meadow.tape", engine="tape") as found:
        assert found["biotope.flow"].dims == ("tick", "y", "x")
        assert found["biotope.energy"].dims == ("tick", "axis_2", "axis_1", "y", "x")
        assert (found.attrs["world"], found.attrs["seed"]) == ("meadow", 3)
        assert np.array_equal(found["biotope.wind"].sel(tick=11).values, live[11][2]["biotope.wind"])


FLORA = {
    "name": "clover",
    "base_energy": 8,
    "max_energy": 24,
    "growth_percent": 4,
    "survival_threshold": 2,
    "reproduction_interval": 30,
    "seed_cost": 6,
    "seed_distance_min": 1,
    "seed_distance_max": 4,
}


def test_a_saved_simulation_and_another_process(tmp_path: Path) -> None:
    live = record_live(tmp_path / "saved", Saved(), list(range(40)), keyframe_interval_ticks=15)
    with xarray.open_dataset(tmp_path / "saved", world=Saved) as found:  # Known by its first bytes.
        grid = ForkingPickler.loads(ForkingPickler.dumps(found["grid"].variable))  # As dask sends it to processes.
        assert np.array_equal(grid[17:22].values, np.stack([live[tick][2]["grid"] for tick in range(17, 22)]))
        assert found["total"].values.tolist() == [int(live[tick][2]["total"]) for tick in range(41)]


def test_files_of_others_are_not_ours(tmp_path: Path) -> None:
    from replayer.datasets.stream.xarray import TapeBackend

    (tmp_path / "text").write_text("hello")
    backend = TapeBackend()
    assert [backend.guess_can_open(one) for one in (tmp_path / "text", tmp_path / "none", tmp_path, b"x", 5)] == [
        False
    ] * 5
    assert backend.guess_can_open("any.tape")


def test_what_cannot_be_had_raises(herd: tuple[Path, Live], tmp_path: Path) -> None:
    path, live = herd
    data = bytearray(path.read_bytes())
    for place in range(200, len(data) - 200, len(data) // 9):
        hurt = bytearray(data)
        hurt[place] ^= 0x40
        (tmp_path / "hurt.tape").write_bytes(hurt)
        with open_herd(tmp_path / "hurt.tape") as found:
            ticks = found["tick"].values.tolist()
            lost = [
                tick
                for one in found.attrs["missing_ticks"]
                for tick in range(int(one.split("..")[0]), int(one.split("..")[1]) + 1)
            ]
            assert sorted(ticks + lost) == list(range(ticks[-1] + 1 if not lost else max(ticks[-1], lost[-1]) + 1))
            had = 0
            for tick in ticks[::9]:
                try:
                    grass = found["grass"].sel(tick=tick).values
                except (CorruptError, MissingTickError):
                    continue
                assert np.array_equal(grass, live[tick][2]["grass"])
                had += 1
            assert had > len(ticks[::9]) // 2


class Astray(Herd):
    def step(self, inputs: Any) -> None:
        super().step(inputs)
        if int(self.state["tick"]) == 60:
            self.state.set("rng", 0, 9)


def test_no_value_is_of_a_state_that_the_run_did_not_have(herd: tuple[Path, Live]) -> None:
    with xarray.open_dataset(herd[0], engine="tape", world=Astray) as found:
        assert np.array_equal(found["grass"].sel(tick=59), herd[1][59][2]["grass"])
        with pytest.raises(DesyncError, match="tick 60"):
            found["grass"].sel(tick=70).load()
        assert np.array_equal(found["grass"].sel(tick=100), herd[1][100][2]["grass"])


class Reshaped:
    """Saves an array that grows."""

    def __init__(self) -> None:
        self.trail = np.zeros(3)

    def step(self, inputs: Any) -> None:  # noqa: ARG002 - it lives on its own
        if len(self.trail) < 8:
            self.trail = np.append(self.trail, 1.0)

    def save(self) -> dict[str, Any]:
        return {"trail": self.trail}

    def load(self, saved: dict[str, Any]) -> None:
        self.trail = saved["trail"].copy()


def test_a_field_that_changes_its_shape_is_refused_where_it_does(tmp_path: Path) -> None:
    record_live(tmp_path / "r.tape", Reshaped(), [None] * 9)
    with xarray.open_dataset(tmp_path / "r.tape", engine="tape", world=Reshaped) as found:
        assert found["trail"].isel(tick=0).values.tolist() == [0, 0, 0]
        with pytest.raises(ExtractionError, match=r"tick 1: expected trail as float64 \(3,\) .*, got float64 \(4,\)"):
            found["trail"].load()


def test_mistakes_are_reported_when_it_is_opened(herd: tuple[Path, Live], tmp_path: Path) -> None:
    with pytest.raises(UnknownWorldError, match="say which simulation to use, world="):
        xarray.open_dataset(herd[0], engine="tape")
    with pytest.raises(UnfitSimulationError, match="different fields"):
        xarray.open_dataset(herd[0], engine="tape", world=Walkers)
    (tmp_path / "text.tape").write_text("hello")
    with pytest.raises(RecordingError):
        xarray.open_dataset(tmp_path / "text.tape")


class Twice:
    """A table with a column that has the name of the variable for its rows."""

    def __init__(self) -> None:
        self.state = State(Schema(Table("things", Field("count", "i4")), Field("square", "i8", (3, 3))))

    def step(self, inputs: Any) -> None:  # noqa: ARG002
        self.state.add_rows("things", 1)


def test_names_that_are_taken(tmp_path: Path) -> None:
    record_live(tmp_path / "t.tape", Twice(), [None] * 3)
    with xarray.open_dataset(tmp_path / "t.tape", engine="tape", world=Twice, rows={"things": 3}) as found:
        assert found["things.live_rows"].values.tolist() == [0, 1, 2, 3]
        assert found["things.count"].dims == ("tick", "things")
        assert found["square"].dims == ("tick", "axis_3", "axis_3_1")
