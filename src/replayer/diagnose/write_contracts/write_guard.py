"""Hold a simulation to what it declares to write: everything else is read-only while a phase runs.

A phase declares its fields by ``Phase.writes``, a simulation without phases by an attribute ``writes``. A recording
never runs this: a simulation is guarded only inside ``guarded``, which replay and the user's tests open.

Two checks, because the first has gaps:
    1. Views of the state are made read-only: NumPy raises ValueError at the line that writes. Row counts and
       marks have no view: the state's methods are checked.
    2. After each phase the bytes of all other fields are compared: a write through memory that NumPy cannot lock
       (a slice that was kept from an earlier phase) raises UndeclaredWriteError then.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from sim.kernel.hooks import DeclaresWrites, HasPhases, Phase, hook
from sim.kernel.schema import COUNTS_FIELD, Layout
from sim.kernel.simulation import ArenaOfSaved, Simulation
from sim.kernel.state import State

STEP = "step"  # The name of the complete step, as if it were a phase.


class UndeclaredWriteError(ValueError):
    """A phase wrote, marked or resized a field that it does not declare.

    Attributes:
        phase: its name.
        fields: full names; a table's name for its row count.
        what: the action, such as "marked".
    """

    def __init__(self, phase: str, fields: tuple[str, ...], what: str) -> None:
        super().__init__(phase, fields, what)
        self.phase = phase
        self.fields = fields
        self.what = what

    def __str__(self) -> str:
        return f"{self.phase} {self.what} {', '.join(self.fields)}, which it does not declare"


class WriteContractError(ValueError):
    """The declarations are invalid: there are none, or they name unknown fields."""


@attrs.frozen
class WriteContract:
    """The fields that one phase may write.

    Attributes:
        phase: its name, STEP for the complete step.
        fields: full names, columns of tables one by one.
        resizes: the tables and blobs whose row counts it may change.
        locked: all other fields, and the other tables' names for their row counts.
    """

    phase: str
    fields: frozenset[str]
    resizes: frozenset[str]
    locked: frozenset[str]

    @staticmethod
    def of(phase: str, writes: Iterable[str], layout: Layout) -> WriteContract:
        """Make a contract from declared names. Raises WriteContractError for one that the state does not have."""
        fields: set[str] = set()
        resizes: set[str] = set()
        names = {name for name in layout.slots if name != COUNTS_FIELD}
        for name in writes:
            columns = {slot.name for slot in layout.slots.values() if slot.owner == name}
            if name not in names and not columns:
                tables = sorted(set(layout.capacities) - names)
                raise WriteContractError(
                    f"{phase} declares that it writes {name!r}; the fields are {', '.join(sorted(names))}"
                    + (f", the tables {', '.join(tables)}" if tables else "")
                )
            fields |= columns or {name}
            resizes |= {name} & set(layout.capacities)
        locked = (names - fields) | (set(layout.capacities) - resizes)
        return WriteContract(phase, frozenset(fields), frozenset(resizes), frozenset(locked))


@attrs.define
class GuardOptions:
    """The actions of a guard while a phase runs; by default all of them.

    Attributes:
        lock: called with a phase and the fields that its contract locks; returns those to make read-only.
        compare: True if bytes are compared after each phase.
        on_change: called with a phase and the fields that it changed without permission; raises or keeps them.
        around: called with a phase and its run; runs it, for example line by line.
    """

    lock: Callable[[str, frozenset[str]], frozenset[str]] = lambda _, fields: fields
    compare: bool = True
    on_change: Callable[[str, tuple[str, ...]], None] | None = None
    around: Callable[[str, Callable[[], Any]], Any] = lambda _, run: run()


class Guard:
    """A simulation that is held to its declarations; otherwise it is the simulation itself.

    Attributes:
        simulation: the guarded one.
        contracts: by phase, STEP included; None for one that declares nothing.
        phase: the phase that runs, or that ran when an error was raised.
        runs: the number of runs of each phase under guard.
        changed: by phase, the fields whose bytes it changed.
        watch: the options.
    """

    def __init__(self, simulation: Simulation) -> None:
        """Raises WriteContractError if nothing is declared or a declaration is invalid."""
        if isinstance(simulation, ArenaOfSaved):
            raise WriteContractError(
                "it keeps its state elsewhere and saves all of it after each step: nothing can be locked"
            )
        self.simulation = simulation
        with_phases, with_writes = hook(simulation, HasPhases), hook(simulation, DeclaresWrites)
        self._phases: Sequence[Phase] = with_phases.phases if with_phases is not None else ()
        layout = simulation.state.layout
        names = [phase.name for phase in self._phases]
        if len({STEP, *names}) <= len(names):
            raise WriteContractError(
                f"expected phases with different names, none of them {STEP!r}, got {', '.join(names)}"
            )
        declared: list[tuple[str, Iterable[str] | None]] = [
            (STEP, with_writes.writes if with_writes is not None else None)
        ]
        declared += [(phase.name, phase.writes) for phase in self._phases]
        self.contracts: dict[str, WriteContract | None] = {
            name: None if writes is None else WriteContract.of(name, writes, layout) for name, writes in declared
        }
        if all(contract is None for contract in self.contracts.values()):
            raise WriteContractError(
                "it declares nothing: add writes={...} to its phases, or an attribute writes with field names to the simulation"
            )
        self.phase = STEP
        self.runs: Counter[str] = Counter()
        self.changed: dict[str, set[str]] = {name: set() for name in self.contracts}
        self.watch = GuardOptions()
        self._active: WriteContract | None = None
        self._locked: frozenset[str] = frozenset()

    @property
    def state(self) -> State:
        """The simulation's state."""
        return self.simulation.state

    @state.setter
    def state(self, state: State) -> None:
        self.simulation.state = state

    def __getattr__(self, name: str) -> Any:
        return getattr(self.simulation, name)

    def step(self, inputs: Any) -> Any:
        """Run one step under guard. Raises the errors of the step; a line that may not write raises ValueError."""
        return self._run(STEP, lambda: self.simulation.step(inputs))

    def install(self) -> None:
        """Put the guard between the simulation and its phases, and between it and its state's methods."""
        if self._phases:
            self._put_phases(tuple(attrs.evolve(phase, run=self._wrapped(phase)) for phase in self._phases))
        state = self.state
        state.__class__ = type(f"Guarded{type(state).__name__}", (_CheckedState, type(state)), {"guard": self})

    def remove(self) -> None:
        """Leave the simulation as it was."""
        self.state.make_writeable()
        self.state.__class__ = type(self.state).__bases__[1]
        if self._phases:
            self._put_phases(self._phases)

    def _put_phases(self, phases: Sequence[Phase]) -> None:
        try:
            self.simulation.phases = phases  # type: ignore[attr-defined]
        except AttributeError as error:
            raise WriteContractError(f"its phases cannot be put under guard: {error}") from None

    def _wrapped(self, phase: Phase) -> Callable[[Any], None]:
        return lambda inputs: self._run(phase.name, lambda: phase.run(inputs))

    def _run(self, name: str, run: Callable[[], Any]) -> Any:
        """Run a phase, or the step around the phases, under its own contract."""
        outer, contract = self._active, self.contracts[name]
        if contract is None:
            contract = outer
        self.phase, self._active = name, contract
        self.runs[name] += 1
        before = _fields_of(self.state) if contract is not None and self.watch.compare else None
        self.lock()
        try:
            result = self.watch.around(name, run)
        finally:
            self._active = outer
            self.lock()
        if before is not None and contract is not None:
            self._compare(name, contract, before)
        self.phase = outer.phase if outer is not None else STEP
        return result

    def _compare(self, name: str, contract: WriteContract, before: Mapping[str, bytes]) -> None:
        changed = {field for field, content in _fields_of(self.state).items() if before.get(field) != content}
        self.changed[name] |= changed
        forbidden = tuple(field for field in before if field in changed & contract.locked)
        if forbidden:
            if self.watch.on_change is None:
                raise UndeclaredWriteError(name, forbidden, "changed the bytes of")
            self.watch.on_change(name, forbidden)

    # --- locking

    def lock(self) -> None:
        """Make read-only all fields that the current contract does not allow."""
        contract = self._active
        if contract is None:
            self._locked = frozenset()
            self.state.make_writeable()
            return
        self._locked = self.watch.lock(contract.phase, contract.locked)
        if self._locked:
            # Row counts are opened by the checked methods only, one table at a time.
            self.state.make_writeable({*self.state.layout.slots} - self._locked - {COUNTS_FIELD})
        else:
            self.state.make_writeable()

    def ensure(self, name: str, what: str) -> None:
        """Raise UndeclaredWriteError if a field is locked now."""
        if self._active is not None and name in self._locked:
            raise UndeclaredWriteError(self._active.phase, (name,), what)

    @contextlib.contextmanager
    def resizing(self, name: str) -> Iterator[None]:
        """Let the row count of a table or blob change in the context; raises UndeclaredWriteError if it may not."""
        self.ensure(name, "changed the size of")
        if self._locked:
            self.state.make_writeable()
        try:
            yield
        finally:
            self.lock()


class _CheckedState(State):
    """A state whose writing methods ask the guard first."""

    guard: Guard

    def set(self, name: str, rows: Any, values: Any) -> None:
        """See State."""
        self.guard.ensure(name, "set")
        super().set(name, rows, values)

    def mark(self, name: str, rows: Any = None) -> None:
        """See State."""
        self.guard.ensure(name, "marked")
        super().mark(name, rows)

    def add_rows(self, table: str, row_count: int) -> slice:
        """See State."""
        with self.guard.resizing(table):
            return super().add_rows(table, row_count)

    def truncate_rows(self, table: str, row_count: int) -> None:
        """See State."""
        with self.guard.resizing(table):
            super().truncate_rows(table, row_count)

    def set_blob(self, name: str, value: bytes) -> None:
        """See State."""
        with self.guard.resizing(name):
            super().set_blob(name, value)


@contextlib.contextmanager
def guarded(simulation: Simulation) -> Iterator[Guard]:
    """Guard a simulation in the context: a step raises at the first line that writes an undeclared field.

    In your own tests: ``with guarded(simulation) as held: held.step(None)``.
    Raises WriteContractError if the simulation declares nothing, or its declarations are invalid.
    """
    guard = Guard(simulation)
    guard.install()
    try:
        yield guard
    finally:
        guard.remove()


def _fields_of(state: State) -> dict[str, bytes]:
    """The bytes of each field, live rows only: growth moves a field without changing it."""
    return {name: state[name].tobytes() for name in state}
