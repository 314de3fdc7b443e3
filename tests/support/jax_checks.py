"""Checks of arrays of JAX, each run in a process of its own: after JAX was used, a process can no longer be forked."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import attrs
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import recorder
import replayer
from recorder.processes.fork_call import in_a_copy
from recorder.processes.fork_hazard import fork_hazard
from sim.adapters import NotCapturedError, adapt, fields, tree_leaves, tree_like
from sim.adapters.capture.values import decode_value, encode_value
from sim.kernel.foreign_arrays import ForeignArrayError, array_kind_from_plain, kind_of, like, to_numpy


def arrays() -> list[Any]:
    return [
        jnp.asarray([1.5, -0.0, np.nan, np.inf]),
        jnp.asarray(3.0),
        jnp.asarray(7),
        jnp.broadcast_to(jnp.asarray(2.0), (3,)),
        jnp.asarray([True, False]),
        jnp.asarray([1 + 2j]),
        jnp.zeros((0, 3)),
        jnp.arange(4, dtype=jnp.bfloat16) / 3,
        jnp.asarray([1.0, 2.0], jnp.float8_e4m3fn),
        jnp.asarray([[1, -2], [3, 4]], "int4"),
        jax.random.PRNGKey(3),
        jax.random.key(3),
        jax.random.split(jax.random.key(3, impl="rbg"), 2),
    ]


def check_arrays(_: Path) -> None:
    """Each array comes back with its bits, dtype, weak type and kind of keys, with or without one to make it like."""
    for array in arrays():
        kind, bits = kind_of(array), to_numpy(array)
        assert array_kind_from_plain(kind.to_plain()) == kind
        for present in (array, None, jnp.zeros(2), "no array"):
            made = like(present, bits, kind)
            assert isinstance(made, jax.Array)
            assert (made.dtype, made.shape) == (array.dtype, array.shape)
            assert kind_of(made) == kind
            assert to_numpy(made).tobytes() == bits.tobytes()
        again = decode_value(encode_value([array, (array,)]))
        assert kind_of(again[0]) == kind
        assert again[0] is again[1][0]  # Shared, as before.
    assert jax.random.uniform(
        like(None, to_numpy(jax.random.key(5)), kind_of(jax.random.key(5)))
    ) == jax.random.uniform(jax.random.key(5))
    bits = np.arange(3.0)
    made = like(None, bits.astype(np.float32), kind_of(jnp.zeros(3)))
    bits[:] = 9
    assert made.tolist() == [0, 1, 2]  # JAX may keep the memory that it is given: it must not be the tape's.


def check_refusals(_: Path) -> None:
    """What holds no numbers is refused by its name."""
    reasons = []

    def traced(value: Any) -> Any:
        try:
            to_numpy(value)
        except ForeignArrayError as error:
            reasons.append(str(error))
        return value

    jax.jit(traced)(jnp.zeros(2))
    gone = jnp.zeros(2)
    gone.delete()
    for value in (gone, jnp.zeros(3)):
        try:
            like(None, np.zeros(3), attrs.evolve(kind_of(value), dtype="float64"))
        except ForeignArrayError as error:
            reasons.append(str(error))
    assert "a JAX tracer" in reasons[0]
    assert "donated or deleted" in reasons[1]
    assert 'jax.config.update("jax_enable_x64", True)' in reasons[2]


class Body(NamedTuple):
    place: Any
    speed: Any


class Drift:
    """A game that keeps its state in JAX's arrays: in an attribute, a named tuple, a list and a dict."""

    def __init__(self) -> None:
        self.key = jax.random.key(1)
        self.body = Body(jnp.zeros(3), jnp.ones(3, jnp.bfloat16))
        self.scale = jnp.asarray(1.0)
        self.trail = [jnp.zeros(2)]
        self.named = {"a": jnp.arange(3)}
        self.advance = jax.jit(lambda key, place: place + jax.random.normal(key, place.shape))

    def step(self, inputs: Any) -> None:
        self.key, one = jax.random.split(self.key)
        self.body = Body(self.advance(one, self.body.place), self.body.speed * 2)
        self.trail = [self.body.place[:2], *self.trail[:3]]
        self.named["a"] = self.named["a"] + inputs

    def values(self) -> list[Any]:
        leaves = jax.tree.leaves((jax.random.key_data(self.key), self.body, self.scale, self.trail, self.named))
        return [(np.asarray(leaf).tobytes(), str(leaf.dtype), leaf.weak_type) for leaf in leaves]


def check_attributes(folder: Path) -> None:
    """A game with arrays of JAX in its attributes is sought and verified."""
    game, live = Drift(), [None]
    with recorder.record(game, folder / "run.tape", fields(), quiet=True) as recorded:
        for tick in range(30):
            recorded.step(tick % 3)
            live.append(game.values())
    with replayer.open(folder / "run.tape", world=lambda: adapt(Drift(), fields())) as run:
        for tick in (20, 3, 30, 1):
            run.seek(tick)
            assert run.simulation.subject.values() == live[tick]
            assert type(run.simulation.subject.body) is Body
        assert run.state["Drift.body.place"].shape == (3,)
        assert run.verify().ok


class Saved:
    """A simulation whose save() returns JAX's arrays, and whose load gets them back."""

    def __init__(self) -> None:
        self.tree = {"key": jax.random.key(2), "bodies": [Body(jnp.zeros(2), jnp.asarray(1.0))], "count": 0}

    def step(self, inputs: Any) -> None:
        key, one = jax.random.split(self.tree["key"])
        body = self.tree["bodies"][0]
        moved = Body(body.place + jax.random.normal(one, (2,)), body.speed * inputs)
        self.tree = {"key": key, "bodies": [moved], "count": self.tree["count"] + 1}

    def save(self) -> dict[str, Any]:
        return tree_leaves(self.tree)

    def load(self, saved: dict[str, Any]) -> None:
        assert isinstance(saved["tree.bodies.0.place"], jax.Array)
        self.tree = tree_like(self.tree, saved)


class Flock:
    """Arrays of JAX in a list, a dict, a tuple and another object; a compiled function in an attribute."""

    def __init__(self) -> None:
        self.birds: list[Any] = [jnp.zeros(2), (jnp.ones(2), 3)]
        self.by_name: dict[str, Any] = {"key": jax.random.key(3), "weak": jnp.asarray(2.0)}
        self.move = jax.jit(lambda x, key: x + jax.random.normal(key, x.shape))

    def step(self, inputs: Any) -> None:
        self.by_name["key"], key = jax.random.split(self.by_name["key"])
        self.birds[0] = self.move(self.birds[0], key)
        if inputs % 4 == 0:
            self.birds.append(self.birds[0] * inputs)

    def values(self) -> list[Any]:
        found = [self.birds[0], *self.birds[1], *self.birds[2:], *self.by_name.values()]
        return [(kind_of(one), to_numpy(one).tobytes()) if isinstance(one, jax.Array) else one for one in found]


def check_containers(folder: Path) -> None:
    """A seek is right, and verify agrees; what cannot be saved is refused by its path."""
    flock = Flock()
    live: list[Any] = [None]
    with recorder.record(flock, folder / "run.tape", fields(), quiet=True) as recorded:
        for tick in range(30):
            recorded.step(tick)
            live.append(flock.values())
    with replayer.open(folder / "run.tape", world=lambda: adapt(Flock(), fields())) as run:
        for tick in (25, 2, 30, 13):
            run.seek(tick)
            assert run.simulation.subject.values() == live[tick]
        report = run.verify()
        assert report.ok
        assert report.proved_keyframes
        assert not report.wrong_keyframes
    flock.birds.append(jnp.zeros(2))
    flock.birds[-1].delete()
    with pytest.raises(NotCapturedError, match=r"Flock\.birds\[\d+\] .*donated or deleted"):
        adapt(flock, fields())


def check_save_and_load(folder: Path) -> None:
    """save() may return arrays of JAX, a tree by its leaves."""
    simulation, live = Saved(), [None]
    with recorder.Recorder(folder / "run.tape", simulation) as tape:
        for tick in range(20):
            tape.step(1.0 + tick)
            live.append({name: to_numpy(jnp.asarray(leaf)).tobytes() for name, leaf in simulation.save().items()})
    with replayer.open(folder / "run.tape", world=Saved) as run:
        for tick in (12, 2, 20):
            run.seek(tick)
            leaves = run.simulation.save()
            assert {name: to_numpy(jnp.asarray(leaf)).tobytes() for name, leaf in leaves.items()} == live[tick]
            assert type(run.simulation.tree["bodies"][0]) is Body
            assert run.simulation.tree["bodies"][0].speed.weak_type
            assert type(run.simulation.tree["count"]) is int
        assert run.verify().ok


@jax.tree_util.register_pytree_with_keys_class
class Registered:
    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def tree_flatten_with_keys(self) -> Any:
        return [(jax.tree_util.GetAttrKey("inner"), self.inner)], None

    @classmethod
    def tree_unflatten(cls, _: Any, children: Any) -> Registered:
        return cls(*children)


def check_trees(_: Path) -> None:
    """Classes that are registered with JAX are taken apart as JAX does; NumPy's arrays may stand for JAX's."""
    tree = {"x": Registered([jnp.arange(2), None, jax.random.key(4)])}
    leaves = tree_leaves(tree, "state")
    assert list(leaves) == ["state.x.inner.0", "state.x.inner.2"]
    plain = {name: to_numpy(leaf) for name, leaf in leaves.items()}
    made = tree_like(tree, plain, "state")
    assert type(made["x"]) is Registered
    assert made["x"].inner[1] is None
    assert made["x"].inner[2] == tree["x"].inner[2]
    longer = tree_like(tree, plain | {"state.x.inner.0": np.arange(5, dtype=np.int32)}, "state")
    assert longer["x"].inner[0].tolist() == [0, 1, 2, 3, 4]


def environments(folder: Path, name: str) -> None:
    """A functional environment of Gymnasium: the plain run alongside, seeks, verify, actions of JAX."""
    env, plain = recorder.record(gymnasium.make(name), folder / "run.tape", quiet=True), gymnasium.make(name)
    plain.action_space.seed(1)
    live: list[Any] = [None]

    def values(of: Any) -> list[Any]:
        leaves = [*jax.tree.leaves(of.unwrapped.state), of.unwrapped.rng]
        return [(np.asarray(leaf).tobytes(), str(leaf.dtype), leaf.weak_type) for leaf in leaves]

    def reset(seed: int | None) -> None:
        env.reset(seed=seed)
        plain.reset(seed=seed)
        live.append(values(env))

    reset(3)
    for tick in range(16):
        action = plain.action_space.sample()
        result, expected = env.step(jnp.asarray(action) if tick % 5 == 0 else action), plain.step(action)
        assert result[1:4] == expected[1:4]
        assert values(env) == values(plain)
        live.append(values(env))
        if result[2] or result[3]:
            reset(None)
    env.close()
    with replayer.open(folder / "run.tape") as run:
        for tick in (9, 2, len(live) - 1):
            run.seek(tick)
            assert values(run.simulation.env) == live[tick]
        assert run.verify().ok


def check_cartpole(folder: Path) -> None:
    first, second = (adapt(gymnasium.make("phys2d/CartPole-v1")).state.hash() for _ in range(2))
    assert first == second  # The seed that making it draws is never used.
    environments(folder, "phys2d/CartPole-v1")


def check_blackjack(folder: Path) -> None:
    environments(folder, "tabular/Blackjack-v0")


def check_vector(folder: Path) -> None:
    """JAX's own vector of environments."""
    envs = recorder.record(gymnasium.make_vec("phys2d/CartPole-v1", num_envs=3), folder / "run.tape", quiet=True)
    envs.action_space.seed(2)
    envs.reset(seed=2)
    live = [None, np.asarray(envs.unwrapped.state).tobytes()]
    for _ in range(14):
        envs.step(envs.action_space.sample())
        live.append(np.asarray(envs.unwrapped.state).tobytes())
    envs.close()
    with replayer.open(folder / "run.tape") as run:
        for tick in (9, 2, 15):
            run.seek(tick)
            assert np.asarray(run.simulation.env.unwrapped.state).tobytes() == live[tick]
        assert run.verify().ok


def check_forks(_: Path) -> None:
    """A fork that would hang is refused."""
    jnp.zeros(1).block_until_ready()
    assert fork_hazard() == "JAX"
    with pytest.raises(RuntimeError, match="JAX has been used in this process"):
        in_a_copy(dict)


if __name__ == "__main__":
    checks: dict[str, Callable[[Path], None]] = {
        name: function for name, function in globals().items() if name.startswith("check_")
    }
    checks[sys.argv[1]](Path(sys.argv[2]))
