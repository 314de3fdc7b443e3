"""Arrays of other libraries: PyTorch, and one that keeps the array API and nothing else. JAX's: test_jax.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

import recorder
import replayer
from sim.adapters import NotCapturedError, adapt, fields
from sim.kernel.foreign_arrays import (
    ForeignArrayError,
    array_kind_from_plain,
    is_foreign_array,
    kind_of,
    like,
    memory_of,
    to_numpy,
)
from sim.kernel.simulation import as_simulation

torch = pytest.importorskip("torch")


class Other:
    """An array of a library of its own; ``made`` counts those that its namespace made."""

    made = 0

    def __init__(self, content: Any) -> None:
        self.content = np.asarray(content)
        self.dtype, self.shape, self.device = self.content.dtype, self.content.shape, "here"

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self.content, dtype)

    def __array_namespace__(self) -> type:
        return Namespace


class Namespace:
    @staticmethod
    def asarray(content: Any, device: str) -> Other:
        assert device == "here"
        Other.made += 1
        return Other(content)


class OnlyArray:
    """Nothing but ``__array__``."""

    def __init__(self, content: Any) -> None:
        self.content = np.asarray(content)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.content


class OnlyDlpack:
    """Nothing but DLPack."""

    def __init__(self, content: Any) -> None:
        self.content = np.asarray(content)

    def __dlpack__(self, **arguments: Any) -> Any:
        return self.content.__dlpack__(**arguments)

    def __dlpack_device__(self) -> Any:
        return self.content.__dlpack_device__()


TENSORS = {
    "floats": lambda: torch.tensor([1.5, -0.0, float("nan")]),
    "number": lambda: torch.tensor(3),
    "empty": lambda: torch.zeros(0, 2),
    "booleans": lambda: torch.tensor([True, False]),
    "bfloat16": lambda: torch.arange(5, dtype=torch.bfloat16) / 3,
    "float8": lambda: torch.ones(3).to(torch.float8_e4m3fn),
    "complex": lambda: torch.tensor([1 + 2j]),
    "turned": lambda: torch.arange(6.0).reshape(2, 3).t(),
    "parameter": lambda: torch.nn.Parameter(torch.ones(2)),
    "differentiated": lambda: torch.ones(2, requires_grad=True),
    "other": lambda: Other([1.0, 2.0]),
}


@pytest.mark.parametrize("name", TENSORS)
def test_an_array_comes_back_with_its_bits_and_all_that_a_step_sees(name: str) -> None:
    """Dtype, shape, strides, class, requires_grad; with one to fill, and without."""
    array = TENSORS[name]()
    kind, bits = kind_of(array), to_numpy(array)
    assert is_foreign_array(array)
    assert array_kind_from_plain(kind.to_plain()) == kind
    for present in (TENSORS[name](), TENSORS["other"]() if name == "other" else None):
        made = like(present, bits, kind)
        assert type(made) is type(array)
        assert kind_of(made) == kind
        assert to_numpy(made).tobytes() == bits.tobytes()
    if name not in ("empty", "other"):
        assert made.stride() == array.stride()
        assert made.requires_grad == array.requires_grad


def test_a_tensor_of_the_same_kind_is_filled_in_place() -> None:
    """Views of it that others hold stay views of it."""
    tensor = torch.zeros(4)
    view = tensor[1:3]
    made = like(tensor, np.arange(4, dtype=np.float32), kind_of(tensor))
    assert made is tensor
    assert view.tolist() == [1, 2]
    assert memory_of(view) == memory_of(tensor)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: torch.zeros(1).expand(4), "an expanded tensor, .* keep tensor.contiguous"),
        (lambda: torch.ones(2, requires_grad=True) * 2, "autograd will differentiate through: keep tensor.detach"),
        (lambda: torch.ones(3).to_sparse(), "a sparse or quantized tensor: keep its dense parts"),
        (lambda: torch.zeros(2, device="meta"), "'meta', which has no values"),
        (lambda: torch.zeros(2, dtype=torch.complex64).conj(), "lazily conjugated"),
        (lambda: Other(["text"]), "expected an array of numbers or booleans, got the dtype <U4"),
    ],
)
def test_an_array_that_cannot_come_back_is_refused_with_the_way_out(make: Any, message: str) -> None:
    """Not approximated."""
    with pytest.raises(ForeignArrayError, match=message):
        kind_of(make())


def test_a_gradient_is_refused_since_it_is_not_saved() -> None:
    """A step of an optimizer would read it."""
    weights = torch.nn.Parameter(torch.ones(2))
    (weights * 2).sum().backward()
    with pytest.raises(ForeignArrayError, match="a tensor with a gradient"):
        kind_of(weights)


@pytest.mark.parametrize("dtype", ["__class__", "_dynamo", "float32; import os", "Tensor", "float"])
def test_a_tape_can_name_nothing_but_dtypes(dtype: str) -> None:
    """The name is looked up in the library."""
    kind = attrs.evolve(kind_of(torch.zeros(2)), dtype=dtype)
    with pytest.raises(ForeignArrayError, match="expected a dtype of PyTorch, got"):
        like(torch.zeros(2), np.zeros(2, np.float32), kind)


def test_a_library_that_the_program_has_not_imported_is_not_imported() -> None:
    """The message says what to do."""
    kind = attrs.evolve(kind_of(torch.zeros(2)), library="antigravity")
    with pytest.raises(ForeignArrayError, match="expected an array of antigravity in its place"):
        like(None, np.zeros(2, np.float32), kind)


# --- as attributes


class Net:
    """A recurrent net of tensors, one of them a parameter, with a plain array alongside."""

    def __init__(self) -> None:
        self.weights = torch.nn.Parameter(torch.full((3, 3), 0.3), requires_grad=False)
        self.hidden = torch.ones(3)
        self.half = torch.ones(3, dtype=torch.bfloat16)
        self.count = np.zeros(2)

    def step(self, inputs: Any) -> None:
        self.hidden = torch.tanh(self.weights @ self.hidden + inputs)  # A new tensor.
        self.half += self.hidden  # In place.
        self.count += 1

    def values(self) -> list[bytes]:
        return [to_numpy(one).tobytes() for one in (self.weights, self.hidden, self.half)]


def test_tensors_in_attributes_are_fields_of_the_state(tmp_path: Path) -> None:
    """Replaced and written in place; a seek is right, verify agrees."""
    net, live = Net(), [b""]
    with recorder.record(net, tmp_path / "run.tape", fields(), quiet=True) as recorded:
        for tick in range(40):
            recorded.step(tick % 3 - 1)
            live.append(net.values())
    with replayer.open(tmp_path / "run.tape", world=lambda: adapt(Net(), fields())) as run:
        for tick in (30, 2, 40, 17):
            run.seek(tick)
            assert run.simulation.subject.values() == live[tick]
            assert type(run.simulation.subject.weights) is torch.nn.Parameter
        assert run.state["Net.weights"].shape == (3, 3)
        assert run.state["Net.half"].dtype == np.uint16
        assert run.verify().ok


def test_tensors_that_share_memory_are_refused_by_name() -> None:
    """Restored apart, a write to one would no longer show in the other."""
    net = Net()
    net.view = net.hidden[1:]
    with pytest.raises(NotCapturedError, match=r"Net\.hidden \(torch\.Tensor\).*its memory is shared with Net\.view"):
        adapt(net, fields())
    net = Net()
    net.view, net.turned = torch.from_numpy(np.zeros(1)), net.count[::-1]
    net.view, net.count = torch.from_numpy(net.count)[1:], None
    with pytest.raises(NotCapturedError, match=r"its memory is shared with Net\.turned \(keep a copy of one of them\)"):
        adapt(net, fields())


def test_memory_that_comes_to_be_shared_in_a_step_is_noticed_in_that_step() -> None:
    """One tensor under two names."""

    class Sharing(Net):
        def step(self, inputs: Any) -> None:
            self.hidden = self.half if inputs else torch.ones(3)

    simulation = adapt(Sharing(), fields())
    simulation.step(0)
    with pytest.raises(NotCapturedError, match="its memory is shared with"):
        simulation.step(1)


def test_a_tensor_that_changes_its_kind_is_saved_as_what_it_is(tmp_path: Path) -> None:
    """Another dtype, another shape, no tensor at all, and back."""

    class Changing:
        def __init__(self) -> None:
            self.x: Any = torch.zeros(2)

        def step(self, inputs: Any) -> None:
            self.x = [torch.zeros(2), torch.ones(3), torch.ones(2, dtype=torch.int8), 5, None, np.ones(2)][inputs]

    live = [None]
    with recorder.record(Changing(), tmp_path / "run.tape", fields(), quiet=True) as recorded:
        for tick in range(24):
            recorded.step(tick * 5 % 6)
            live.append(recorded.x)
    with replayer.open(tmp_path / "run.tape", world=lambda: adapt(Changing(), fields())) as run:
        for tick in (20, 1, 7, 8, 9, 10, 11, 12):
            run.seek(tick)
            restored = run.simulation.subject.x
            assert type(restored) is type(live[tick])
            assert str(restored) == str(live[tick])
        assert run.verify().ok


# --- in containers


class Brain:
    """A module of PyTorch, tensors in a list and in a dict, one of them also an attribute."""

    def __init__(self) -> None:
        self.net = torch.nn.Linear(2, 2)
        for parameter in self.net.parameters():
            parameter.requires_grad_(requires_grad=False)
            parameter.fill_(0.5)
        self.traces = [torch.zeros(2) for _ in range(3)]
        self.best = self.traces[0]
        self.by_name: dict[str, Any] = {"half": torch.ones(2, dtype=torch.bfloat16), "best": self.best}

    def step(self, inputs: Any) -> None:
        self.traces[inputs % 3] += inputs  # In place.
        self.net.weight += 0.25
        if inputs % 4 == 0:
            self.traces.append(self.net(self.traces[1]))
        if inputs % 5 == 0:
            self.best = self.by_name["best"] = self.traces[-1].clone()

    def values(self) -> list[bytes]:
        tensors = [self.net.weight, self.net.bias, *self.traces, self.best, *self.by_name.values()]
        return [to_numpy(one).tobytes() for one in tensors]


def test_tensors_in_containers_are_nodes_of_the_graph(tmp_path: Path) -> None:
    """Changed in place, appended, and shared with an attribute."""
    brain, live = Brain(), [[b""]]
    with recorder.record(brain, tmp_path / "run.tape", fields(), quiet=True) as recorded:
        for tick in range(40):
            recorded.step(tick)
            live.append(brain.values())
    with replayer.open(tmp_path / "run.tape", world=lambda: adapt(Brain(), fields())) as run:
        for tick in (30, 2, 40, 17):
            run.seek(tick)
            restored = run.simulation.subject
            assert restored.values() == live[tick]
            assert restored.by_name["best"] is restored.best
            assert type(restored.net.weight) is torch.nn.Parameter
        assert run.verify().ok


def with_view(brain: Brain) -> None:
    brain.traces.append(brain.traces[1][1:])


def with_view_of_attribute(brain: Brain) -> None:
    brain.own = torch.zeros(4)
    brain.traces.append(brain.own[1:])


def with_array(brain: Brain) -> None:
    array = np.zeros(3)
    brain.by_name["array"], brain.by_name["tensor"] = [array], [torch.from_numpy(array)]


@pytest.mark.parametrize(
    ("share", "message"),
    [
        (with_view, r"Brain\.traces\[\d\] \(torch\.Tensor\): its memory is shared with another array \(keep a copy"),
        (with_view_of_attribute, r"Brain\.own \(torch\.Tensor\): its memory is shared with an array in a container"),
        (with_array, r"Brain\.by_name\['(array|tensor)'\]\[0\] .*: its memory is shared with another array"),
    ],
)
def test_tensors_in_containers_that_share_memory_are_refused_by_their_paths(share: Any, message: str) -> None:
    """At the start, and in the step in which it comes to be so."""
    brain = Brain()
    share(brain)
    with pytest.raises(NotCapturedError, match=message):
        adapt(brain, fields())

    class Sharing(Brain):
        def step(self, inputs: Any) -> None:
            share(self)

    with pytest.raises(NotCapturedError, match=message.replace("Brain", "Sharing")):
        adapt(Sharing(), fields()).step(0)


def test_a_tensor_in_a_container_that_cannot_come_back_is_refused_by_its_path() -> None:
    """With the reason of the array itself."""
    brain = Brain()
    brain.traces[2] = torch.ones(3).to_sparse()
    message = r"Brain\.traces\[2\] \(torch\.Tensor\): a sparse or quantized tensor \(keep its dense parts\)"
    with pytest.raises(NotCapturedError, match=message):
        adapt(brain, fields())


# --- in save() and load()


class Keeper:
    """save() returns arrays of several libraries; ``got`` is what load was given."""

    def __init__(self) -> None:
        self.x, self.y, self.z = torch.zeros(3, dtype=torch.bfloat16), Other([0.0, 0.0]), np.zeros(2)
        self.got: dict[str, Any] = {}

    def step(self, inputs: Any) -> None:
        self.x += inputs
        self.y = Other(self.y.content + 1)
        self.z += 1

    def save(self) -> dict[str, Any]:
        return {"x": self.x, "y": self.y, "z": self.z, "a": OnlyArray(self.z * 2), "d": OnlyDlpack(self.z * 3)}

    def load(self, saved: dict[str, Any]) -> None:
        self.got = saved
        self.x, self.y, self.z = saved["x"].clone(), saved["y"], saved["z"]


def test_load_gets_arrays_of_the_libraries_that_save_returned(tmp_path: Path) -> None:
    """Those that only give themselves as arrays come back as NumPy's."""
    keeper, live = Keeper(), [None]
    with recorder.Recorder(tmp_path / "run.tape", keeper) as tape:
        for tick in range(20):
            tape.step(tick)
            live.append((to_numpy(keeper.x).tobytes(), keeper.y.content.tolist()))
    with replayer.open(tmp_path / "run.tape", world=Keeper) as run:
        for tick in (13, 2, 20):
            run.seek(tick)
            simulation = run.simulation
            assert (to_numpy(simulation.x).tobytes(), simulation.y.content.tolist()) == live[tick]
        simulation.load(simulation.got)
        assert type(simulation.got["x"]) is torch.Tensor
        assert type(simulation.got["y"]) is Other
        assert type(simulation.got["a"]) is np.ndarray
        assert type(simulation.got["d"]) is np.ndarray
        assert "array_kinds" not in simulation.got
        assert run.verify().ok


@pytest.mark.parametrize(
    ("saved", "error", "message"),
    [
        ({"x": OnlyArray(["text"])}, TypeError, r"^save\(\)\['x'\]: expected an array of numbers or booleans"),
        ({"x": torch.ones(2).to_sparse()}, TypeError, r"^save\(\)\['x'\]: a sparse or quantized tensor"),
        ({"x": OnlyArray}, TypeError, r"^save\(\)\['x'\]: expected an array, a NumPy number or bytes, got type$"),
        ({"x": torch.ones(2), "array_kinds": b""}, ValueError, r"'array_kinds'\]: this name is reserved"),
    ],
)
def test_what_save_may_not_return_is_named(saved: Any, error: type[Exception], message: str) -> None:
    """By the key."""
    keeper = Keeper()
    keeper.save = lambda: saved  # type: ignore[method-assign]
    with pytest.raises(error, match=message):
        as_simulation(keeper)
