"""The two forms of a simulation; simulations that save and load, as an arena."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sim import Blob, Field, Phase, Schema, State, run_phases
from sim.kernel.simulation import ArenaOfSaved, as_simulation, restore

from small_worlds import Saved, Walkers


class Tally:
    """A save/load simulation whose save() returns bytes: all inputs so far."""

    origin = "from the inner one"

    def __init__(self) -> None:
        self.seen = b""

    def step(self, inputs: bytes) -> None:
        self.seen += inputs

    def save(self) -> bytes:
        return self.seen

    def load(self, saved: bytes) -> None:
        self.seen = saved


class Anything:
    """A save/load simulation that saves its last input."""

    def __init__(self, first: Any) -> None:
        self.kept = first

    def step(self, inputs: Any) -> None:
        self.kept = inputs

    def save(self) -> Any:
        return self.kept

    def load(self, saved: Any) -> None:
        self.kept = saved


def test_a_simulation_with_a_state_is_taken_as_it_is() -> None:
    """No wrapper is put around it."""
    walkers = Walkers()

    assert as_simulation(walkers) is walkers


def test_a_refusal_names_the_missing_members() -> None:
    """The message names the class and both forms of a simulation."""
    expected = (
        r"^Half is not a simulation: expected \.state \(a sim\.State\) and \.step\(inputs\), "
        r"or \.save\(\), \.load\(saved\) and \.step\(inputs\); recorder\.record\(\) records any object, .+ a simulation of it$"
    )

    class Half:
        state = State(Schema(Field("x", "i8")))

        def save(self) -> bytes:
            return b""

    for candidate in (Half(), type("Half", (), {"state": 5, "step": print})()):
        with pytest.raises(TypeError, match=expected):
            as_simulation(candidate)


def test_saved_bytes_become_one_blob() -> None:
    """The bytes of save() are in the field 'saved', are updated at each step at any length and load as bytes."""
    simulation = as_simulation(Tally())
    hashes = [simulation.state.hash()]
    snapshots = [simulation.state.snapshot()]
    for piece in (b"a", b"", b"x" * 700):
        simulation.step(piece)
        hashes.append(simulation.state.hash())
        snapshots.append(simulation.state.snapshot())

    assert isinstance(simulation, ArenaOfSaved)
    assert [snapshot.blob("saved") for snapshot in snapshots] == [b"", b"a", b"a", b"a" + b"x" * 700]
    assert hashes[1] == hashes[2]
    assert len(set(hashes)) == 3
    restore(simulation, snapshots[1])
    assert simulation.inner.save() == b"a"
    simulation.step(b"b")
    assert simulation.state.blob("saved") == b"ab"
    assert simulation.origin == "from the inner one"
    assert simulation.marks_writes is False


def test_a_saved_mapping_becomes_fields_and_blobs() -> None:
    """Arrays and NumPy numbers are fields, bytes are blobs, in the order of the mapping."""
    simulation = as_simulation(
        Anything({"grid": np.arange(6, dtype=">i2").reshape(2, 3), "total": np.float64(2.5), "note": b"hi"})
    )
    state = simulation.state

    assert state.layout.schema == Schema(Field("grid", "<i2", (2, 3)), Field("total", "f8"), Blob("note"))
    assert (state["grid"].tolist(), float(state["total"]), state.blob("note")) == ([[0, 1, 2], [3, 4, 5]], 2.5, b"hi")


def test_restoring_gives_the_inner_simulation_its_own_arrays() -> None:
    """Load receives what save returned, in a fresh and in a used instance, and never an alias of the arena."""
    one, used, fresh = (as_simulation(Saved()) for _ in range(3))
    for value in range(1, 30):
        one.step(value)
        used.step(value * 3)
    saved = one.state.snapshot()
    for other in (used, fresh):
        restore(other, saved)
        assert (other.inner.total, other.inner.trail) == (one.inner.total, one.inner.trail)  # type: ignore[attr-defined]
        assert other.inner.grid.tolist() == one.inner.grid.tolist()  # type: ignore[attr-defined]
        assert other.state.hash() == saved.hash()
    for value in (5, 400, 7):
        for simulation in (one, used, fresh):
            simulation.step(value)
        assert one.state.hash() == used.state.hash() == fresh.state.hash()
    assert saved["total"] == sum(range(1, 30))


def test_the_arena_follows_a_change_of_shape() -> None:
    """A different shape, dtype or name makes a different schema at the next step; the values stay correct."""
    simulation = as_simulation(Anything({"x": np.arange(3)}))
    steps: list[dict[str, Any]] = [
        {"x": np.arange(5)},
        {"x": np.arange(5, dtype="f4")},
        {"x": np.arange(5, dtype="f4"), "note": b"more"},
        {"note": b"less"},
        {"x": np.arange(3)},
    ]
    start = simulation.state.snapshot()
    for given in steps:
        simulation.step(given)
        assert list(simulation.state) == list(given)
        for name, value in given.items():
            state = simulation.state
            assert (state.blob(name) if isinstance(value, bytes) else state[name].tolist()) == (
                value if isinstance(value, bytes) else value.tolist()
            )
    assert simulation.state.hash() == start.hash()


def test_after_a_restore_across_shapes_the_next_step_is_correct() -> None:
    """The layout of a restored snapshot is compared again at the next step."""
    simulation = as_simulation(Anything({"x": np.arange(3)}))
    small = simulation.state.snapshot()
    simulation.step({"x": np.arange(5)})
    restore(simulation, small)
    simulation.step({"x": np.arange(5) * 2})

    assert simulation.state["x"].tolist() == [0, 2, 4, 6, 8]


@pytest.mark.parametrize(
    ("saved", "message"),
    [
        (None, "save(): expected bytes, or a mapping of names to arrays and bytes, got NoneType"),
        ([1], "save(): expected bytes, or a mapping of names to arrays and bytes, got list"),
        ({}, "save(): expected bytes, or a mapping of names to arrays and bytes, got an empty mapping"),
        ({"x": 5}, "save()['x']: expected an array, a NumPy number or bytes, got int"),
        ({"x": "text"}, "save()['x']: expected an array, a NumPy number or bytes, got str"),
        (
            {"x": np.array(["a"])},
            "dtype <U1 is not supported: expected booleans, integers or floats of up to 64 bits, or complex numbers",
        ),
    ],
)
def test_what_save_must_not_return(saved: Any, message: str) -> None:
    """The message names the returned value, at construction and at a later step."""
    with pytest.raises(TypeError) as caught:
        as_simulation(Anything(saved))
    assert str(caught.value) == message
    simulation = as_simulation(Anything(b"fine"))
    with pytest.raises(TypeError) as caught:
        simulation.step(saved)
    assert str(caught.value) == message


def test_phases_run_in_their_order() -> None:
    """Each phase receives the inputs of the tick, in order."""
    seen: list[Any] = []
    run_phases([Phase("one", lambda i: seen.append(("one", i))), Phase("two", lambda i: seen.append(("two", i)))], [7])

    assert seen == [("one", [7]), ("two", [7])]
