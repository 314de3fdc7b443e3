"""Record Mesa models: one tick is one step of the model, or of its simulator; the complete model is the state.

Mesa's objects can be saved by pickle alone, so the user has to pass trust=True. Readable without pickle are the numbers
of steps and agents, the ids and classes of agents, the states of the generators, and the connections of the cells.
"""

from __future__ import annotations

import importlib.metadata
import itertools
import weakref
from collections.abc import Iterable
from typing import Any

import mesa
import numpy as np
from mesa.discrete_space import Cell, CellCollection, DiscreteSpace
from mesa.experimental.devs.eventlist import SimulationEvent

from sim.adapters.capture.captured_state import CONSTANT_CHECK_STEPS, CapturedWarning
from sim.adapters.capture.digest.attribute_reader import AttributeReader
from sim.adapters.capture.digest.value_digest import ValueSubject
from sim.adapters.capture.digest.value_hooks import DigestsValues
from sim.adapters.interface.adapter_registry import Adapter, NotCapturedError
from sim.adapters.interface.attempts import KeepsItsAttempts
from sim.adapters.interface.capture_report import Part, Report
from sim.adapters.interface.proxy import OWN_NAMES, RecordedProxy, make_proxy
from sim.adapters.mesa.decode import load_model, rewire
from sim.adapters.mesa.encode import CACHES, OF_THE_MODEL, agents_of, dump_model, events_of, find_places, topology_of
from sim.kernel.exactness import Level, level_from
from sim.kernel.schema import Blob, Field, Schema, Table
from sim.kernel.state import State
from sim.user_warning import warn_user

NAME = "mesa"
KNOWN_VERSION = "3.3"  # Mesa's own objects are captured, and they change from version to version.
MODEL, TOPOLOGY, CLASSES, AGENTS = "model", "topology", "classes", "agents"


# Attributes that depend on what was done before, and that nothing reads but the object itself.
_UNCOUNTED: dict[type, tuple[str, ...]] = {
    weakref.WeakKeyDictionary: ("_dirty_len", "_iterating", "_pending_removals"),
    SimulationEvent: ("unique_id",),  # Of all events of the process; the state has their order.
    CellCollection: ("cells",),  # Kept when it is first asked for.
}


class MesaSimulation(KeepsItsAttempts, DigestsValues):
    """A model as a simulation.

    Attributes:
        model: the model; it is loaded in place.
        state: the arena.
        level: EXACT.
    """

    def __init__(
        self, model: Any, *, level: Level | str | None = None, pickler: Any = None, ignore: Iterable[str] = ()
    ) -> None:
        """Survey the model. pickler: a TrustedPickler, if the user trusts pickle.

        Raises NotCapturedError without a pickler, or for a model that cannot be saved; ValueError for a level other
        than exact, or for ignored names.
        """
        self.level = level_from(level)
        if self.level is not Level.EXACT:
            raise ValueError(
                "level: expected 'exact', the only level of a Mesa model, which has no reset from which its inputs "
                f"could be repeated, got {self.level.value!r}"
            )
        if tuple(ignore):
            raise ValueError("ignore: expected no names for a Mesa model, whose objects are saved together")
        if pickler is None:
            raise NotCapturedError(
                f"the agents of {type(model).__name__} can be saved by pickle alone, which runs code when it is loaded: "
                "pass trust=True if you open only your own tapes"
            )
        self.model = model
        self._pickled = pickler
        self._readers: dict[type, AttributeReader] = {}
        self._places = find_places(model)
        self._topology = topology_of(self._places)
        self.state = State(
            Schema(
                Field("ticks", "i8", hot=True),
                Field("steps", "i8", hot=True),
                Field("topology_moves", "i8", hot=True),
                Field("next_agent_id", "i8", hot=True),
                Table(AGENTS, Field("id", "i8"), Field("class", "u2"), capacity=max(64, len(agents_of(model)))),
                Blob(CLASSES),
                Blob(TOPOLOGY),
                Blob(MODEL),
            )
        )
        self._pack()

    def _call(self, inputs: Any) -> Any:
        """Step the model, run its simulator for one unit of time, or seed the model again.

        inputs: None, {"arguments": {...}} for its step, or {"seed": number}. Raises ValueError for any others.
        """
        match inputs:
            case {"seed": int(seed)}:
                _seed(self.model, seed)
                return None
            case None:
                return _step_of(self.model)()
            case {"arguments": dict(arguments)}:
                return _step_of(self.model)(**arguments)
        raise ValueError("expected the inputs of a Mesa model: None, the arguments of a step, or a seed")

    def _capture(self, inputs: Any) -> None:
        del inputs  # The model alone is the state.
        state = self.state
        state["ticks"][()] += 1
        cell_count = len(self._places.cells)
        self._places = find_places(self.model, self._places.asked)
        is_due = int(state["ticks"]) % CONSTANT_CHECK_STEPS == 0 or cell_count != len(self._places.cells)
        if is_due or state["topology_moves"]:
            self._check_topology()
        self._pack()

    def _check_topology(self) -> None:
        topology = topology_of(self._places)
        if topology != self._topology and not self.state["topology_moves"]:
            self.state["topology_moves"][()] = 1
            warn_user(
                "the cells' connections were assumed to be constant and have changed: they are saved at each step from "
                "now on; a seek into the earlier steps may not be exact",
                CapturedWarning,
            )
        if topology != self._topology:
            self._places.asked.clear()  # Cells asked in the same way may give different collections now.
        self._topology = topology

    def _pack(self) -> None:
        model, state = self.model, self.state
        _clear_unused(model)
        agents = agents_of(model)
        classes = {cls: index for index, cls in enumerate(dict.fromkeys(map(type, agents)))}
        state["steps"][()] = model.steps
        state["next_agent_id"][()] = _next_agent_id(model)
        state.truncate_rows(AGENTS, 0)
        state.add_rows(AGENTS, len(agents))
        state[f"{AGENTS}.id"][:] = [agent.unique_id for agent in agents]
        state[f"{AGENTS}.class"][:] = [classes[type(agent)] for agent in agents]
        state.set_blob(CLASSES, "\n".join(cls.__qualname__ for cls in classes).encode())
        state.set_blob(TOPOLOGY, self._topology)
        state.set_blob(MODEL, dump_model(self._places, self._pickled))

    def after_restore(self) -> None:
        """Restore the model from the arena. Raises NotCapturedError if it was made with different arguments."""
        state, model = self.state, self.model
        self._places = find_places(model)
        topology = state.blob(TOPOLOGY)
        if topology != topology_of(self._places):
            rewire(self._places, topology)
        self._topology = topology
        self._places.asked.clear()
        load_model(self._places, state.blob(MODEL), self._pickled)
        _set_next_agent_id(model, int(state["next_agent_id"]))
        self._places = find_places(model, self._places.asked)
        events = events_of(model)
        if events:
            _number_events_after(type(events[0]), len(events))

    @property
    def subject(self) -> Any:
        """The model."""
        return self.model

    def value_subject(self) -> ValueSubject:
        """The objects whose values are digested: all that the model and its agents lead to."""
        model = self.model
        of_model = {*OF_THE_MODEL, *self._places.collectors, *self._places.functions}

        def excluded(holder: Any, name: str) -> bool:
            if holder is model:
                return name in of_model
            kind = type(holder)
            return name in _UNCOUNTED.get(kind, ()) or (name in CACHES and isinstance(holder, Cell | DiscreteSpace))

        roots = {"agents": agents_of(model), "model": model}
        return ValueSubject(roots, excluded, home=type(model).__module__, readers=self._readers)

    def report(self) -> Report:
        """The captured parts."""
        collectors = tuple(self._places.collectors)
        kept = {*collectors, *self._places.functions, "step", "_user_step"}
        captured = tuple(sorted(vars(self.model).keys() - kept))
        parts = [Part(type(self.model).__name__, captured, tuple(sorted(kept)))]
        parts += [Part(name, ("cells", "layers", "agents")) for name, _ in self._places.spaces]
        gathered = f"what {', '.join(collectors)} gathers is output, and not saved" if collectors else ""
        return Report(NAME, type(self.model).__name__, self.level, tuple(parts), (gathered,) if gathered else ())

    @property
    def adapter(self) -> dict[str, Any]:
        """The description of the simulation for the tape."""
        kind = type(self.model)
        return {
            "name": NAME,
            "package": NAME,
            "version": importlib.metadata.version(NAME),
            "class": f"{kind.__module__}.{kind.__qualname__}",
            "report": self.report().to_plain(),
        }


class RecordedModel(RecordedProxy):
    """A proxy for a recorded model: its step is recorded, all else is the model's own."""

    __slots__ = ("model",)
    _recording_names = (*OWN_NAMES, "model")

    def __init__(self, simulation: MesaSimulation, tape: Any) -> None:
        """tape: its recorder, with step(inputs) and close(outcome)."""
        super().__init__(simulation.model, tape)
        object.__setattr__(self, "model", simulation.model)

    def step(self, **arguments: Any) -> Any:
        """Make one step of the model, or of its simulator's time, recorded with its arguments."""
        return self.tape.step({"arguments": arguments} if arguments else None)

    def reset_randomizer(self, seed: int) -> None:
        """Seed both generators of the model again; recorded as a separate tick."""
        self.tape.step({"seed": int(seed)})

    def run_for(self, steps: int) -> None:
        """Make this number of steps."""
        for _ in range(steps):
            self.step()

    def run_model(self) -> None:
        """Make steps while ``model.running`` is true."""
        while self.model.running:
            self.step()


def _step_of(model: Any) -> Any:
    """The function that makes one step: that of the model's simulator, which also runs scheduled events, or its own."""
    simulator = vars(model).get("simulator")
    run_for = getattr(simulator, "run_for", None)
    if run_for is not None and getattr(simulator, "model", None) is model:
        return lambda: run_for(1)
    return model.step


def _seed(model: Any, seed: int) -> None:
    """Seed both generators in place, so that every holder draws from the new seed."""
    model.random.seed(seed)
    model.rng.bit_generator.state = type(model.rng.bit_generator)(seed).state


def _player(_: Any, seed: int) -> Any:
    """The inputs for tests: first a seed, so that each seed gives a different run, then None."""
    first = iter(({"seed": seed},))
    return lambda: next(first, None)


def _clear_unused(model: Any) -> None:
    """Clear the spare rows of continuous spaces: they hold arbitrary memory, which is never read, but saved."""
    for value in vars(model).values():
        positions, count = getattr(value, "_agent_positions", None), getattr(value, "_n_agents", None)
        if type(value).__module__.startswith("mesa.") and isinstance(positions, np.ndarray) and type(count) is int:
            positions[count:] = 0


def _next_agent_id(model: Any) -> int:
    """The next id of the counter of agents' ids, which is an attribute of the class."""
    counters = mesa.Agent._ids  # noqa: SLF001 - there is no other way to it
    following = next(counters[model])
    counters[model] = itertools.count(following)
    return int(following)


def _set_next_agent_id(model: Any, following: int) -> None:
    mesa.Agent._ids[model] = itertools.count(following)  # noqa: SLF001


def _number_events_after(kind: Any, count: int) -> None:
    """Number the next events after the loaded ones. All models share the counter, and it only grows."""
    following = next(kind._ids)  # noqa: SLF001 - there is no other way to it
    kind._ids = itertools.count(max(following, count))  # noqa: SLF001


def _adapt(model: Any, **options: Any) -> MesaSimulation:
    if not isinstance(model, mesa.Model):
        raise NotCapturedError(f"expected a mesa.Model, got {type(model).__name__}")
    version = importlib.metadata.version(NAME)
    if not version.startswith(f"{KNOWN_VERSION}."):
        raise NotCapturedError(
            f"expected Mesa {KNOWN_VERSION}, whose agents and events this adapter supports, got Mesa {version}: "
            f"pip install 'mesa=={KNOWN_VERSION}.*'"
        )
    return MesaSimulation(model, **options)


def _door(simulation: MesaSimulation, tape: Any) -> Any:
    return make_proxy(RecordedModel, simulation.model, simulation, tape)


ADAPTER = Adapter(NAME, _adapt, _door, player=_player)
