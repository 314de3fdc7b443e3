"""The optional members of a simulation, one Protocol each, and the one way to look them up: ``hook``.

A simulation needs a state and a step (see Simulation). Each member here adds a feature that the recorder, the replayer
or a scenario uses. Nothing needs to be inherited. The tables of docs/record.md quote the docstrings here.

Look a member up once, at the start, and keep the result: a lookup costs time in each tick.

Invariants:
    1. Each Protocol has exactly one member, and is listed in RECORDING_HOOKS or SCENARIO_HOOKS.
    2. A member that is None counts as missing, and so does a method that cannot be called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, cast

import attrs

_H = TypeVar("_H")


def _to_names(writes: Iterable[str] | None) -> frozenset[str] | None:
    if isinstance(writes, str):
        raise TypeError(f"writes: expected a set of names, such as {{{writes!r}}}, got {writes!r}")
    return None if writes is None else frozenset(writes)


@attrs.frozen
class Phase:
    """One named part of a step.

    Attributes:
        name: short, lower case, for findings ("phase lifecycle").
        run: called with the inputs of the tick.
        writes: the fields that it may write, by full name; a table's name stands for its columns and its row count.
            None declares nothing. ``replay contracts`` checks the declaration; recording does not.
    """

    name: str
    run: Callable[[Any], None]
    writes: frozenset[str] | None = attrs.field(default=None, converter=_to_names)


# --- used by the recorder and the replayer


class HasPhases(Protocol):
    """The named parts of a step, a sequence of `sim.Phase`; `step` only runs them, with `sim.run_phases`."""

    phases: Sequence[Phase]


class DeclaresWrites(Protocol):
    """The full names of the fields that `step` may write, as in `sim.Phase`; `replay contracts` checks it."""

    writes: Iterable[str] | None


class MarksWrites(Protocol):
    """True: each write to the state is marked, with `State.mark` or `State.set`."""

    marks_writes: bool


class HasOrigin(Protocol):
    """A `sim.Origin`: the registered world, its version and its configuration, to build the simulation again."""

    origin: Any


class HasLevel(Protocol):
    """The exactness of a load: `"exact"` (the default), `"canonical"` or `"inputs_only"`.

    Anything but a text is a value of your own, such as the number of a game's level.
    """

    level: Any


class AfterRestore(Protocol):
    """Called after the state was replaced from outside: rebuild what the next step derives from it."""

    def after_restore(self) -> None:
        """Adopt the state."""


class HasTelemetry(Protocol):
    """The figures of the present tick by name, integers or decimals; the same names at each tick."""

    def telemetry(self) -> Mapping[str, int | float]:
        """The figures."""


class EmitsEvents(Protocol):
    """The events of the last step: dicts of plain data with a key `"kind"`. No later step reads them."""

    def events(self) -> Sequence[dict[str, Any]]:
        """The events, in order."""


class EventsOnRequest(Protocol):
    """False at first. Events cost time: they are collected only after this was set to True, before the step."""

    events_wanted: bool


class CanEnd(Protocol):
    """The reason why the run is over at the present tick, as a short name and a sentence; None while it is not."""

    def ended(self) -> tuple[str, str] | None:
        """The reason."""


class HasScenario(Protocol):
    """The scenario around the simulation, as plain data. A scenario sets it; your simulation does not need it."""

    scenario: Mapping[str, Any]


class HasAdapter(Protocol):
    """The adapter's entry in META: its name, what it captured and what it did not. Adapters have it."""

    adapter: dict[str, Any]


class CanRehearse(Protocol):
    """Steps a copy before anything is recorded, to find early what cannot be captured. Adapters have it."""

    def rehearse(self) -> None:
        """Raise the errors that the recording would raise later."""


class KeepsAttempts(Protocol):
    """Called after `step` raised: the inputs with which `step` repeats that on a replay, or None: the tape ends."""

    def attempted(self, inputs: Any, error: Exception) -> Any:
        """Take the state as the step left it; return the inputs to record."""


class SuggestsInputs(Protocol):
    """Returns a function that gives the inputs of each next step: for the trial before a recording, and for checks."""

    def trial_inputs(self, seed: int) -> Callable[[], Any]:
        """Make the source of inputs of one trial; equal seeds give equal inputs."""


class CanRecapture(Protocol):
    """Takes the whole state from the objects again, repairs the state, and returns the paths of what differed.

    Called before each keyframe. A path is a fault of the code that follows changes. Adapters have it.
    """

    def recapture(self) -> Sequence[str]:
        """The paths; empty if the state is right."""


class DefersKeyframes(Protocol):
    """True while no keyframe may be taken: it is asked again at each of the next ticks, and that keyframe is full."""

    def keyframe_deferred(self) -> bool:
        """Defer the keyframe that is due now."""


class HasValueDigest(Protocol):
    """A digest of the values of the objects, by other code than the state's, for `replay verify`: 8 to 64 bytes.

    The first byte numbers the method. Digests by different methods are not compared. Empty bytes: nothing is compared.
    """

    def value_digest(self) -> bytes:
        """The digest."""


class SkipsCapture(Protocol):
    """False at first. While it is True, `step` takes no state from the objects: only their values count, until a load.

    For replays that compare digests of values at keyframes only. Adapters have it.
    """

    capture_skipped: bool


class ComparesValues(Protocol):
    """The path of the first value that differs from another simulation's, or None, to explain a different digest."""

    def value_difference(self, other: Any, /) -> str | None:
        """The path."""


class KeepsValues(Protocol):
    """All values of the objects as data that can be pickled: value_difference takes it in place of a simulation."""

    def kept_values(self) -> Any:
        """The values as they are now."""


class WatchesValues(Protocol):
    """Called after a step: a function that gives the path of a value that was changed since, or None. Adapters have it."""

    def watch_values(self) -> Callable[[], str | None]:
        """Watch the values as they are now."""


class NamesUnreadValues(Protocol):
    """The classes of objects whose values the last digest could not read: a wrong restore of those is not noticed."""

    def values_not_read(self) -> Sequence[str]:
        """The names of the classes, sorted; empty before the first digest."""


# --- used by a scenario, of the world inside it


class HasProperties(Protocol):
    """Functions by name, for a scenario's properties of kind `function`."""

    properties: Mapping[str, Callable[[Any], str | None]]


class HasRoles(Protocol):
    """The names of the roles, which send inputs or messages, in a fixed order."""

    roles: Sequence[str]


class AcceptsInputs(Protocol):
    """True if the world takes an input of a role; others become events `invalid`."""

    def accepts(self, item: Any, /) -> bool:
        """Judge one input."""


class HasSamples(Protocol):
    """The figures of a role that a trace keeps, Q32.32 as integers (1.0 is 2**32)."""

    def sample(self, role: str, /) -> Sequence[int]:
        """The figures."""


class HasLabels(Protocol):
    """The labels of all messages; a scenario that names an unknown label is refused."""

    labels: Collection[str]


class HasSessions(Protocol):
    """The number of sessions, numbered from 0; a scenario that names an unknown session is refused."""

    sessions: int


class HasChannels(Protocol):
    """True if one role can send to the other; nothing is delivered where it is False."""

    def has_channel(self, sender: str, receiver: str, /) -> bool:
        """Judge one pair of roles."""


class CountsBuffered(Protocol):
    """The number of messages in buffers, by session."""

    def buffered_by_session(self) -> dict[int, int]:
        """The counts."""


class HasDepths(Protocol):
    """The number of remaining protocol steps, by session."""

    def depths(self) -> dict[int, int]:
        """The counts."""


class HasConcurrency(Protocol):
    """The number of roles that one round advances."""

    concurrency: int


class HasPolicy(Protocol):
    """The name of the policy by which the world's scheduler picks roles."""

    scheduler_policy: str


class ChoosesPolicy(Protocol):
    """Makes the world's scheduler follow a policy, by name; raises ConfigError for an unsupported policy."""

    def choose_policy(self, policy: str, /) -> None:
        """Follow the policy."""


class ReportsProgress(Protocol):
    """The progress of the roles, as plain data, for the result of a scenario."""

    def progress(self) -> Any:
        """The progress as of the present tick."""


RECORDING_HOOKS: tuple[Callable[..., Any], ...] = (
    HasPhases,
    DeclaresWrites,
    MarksWrites,
    HasOrigin,
    HasLevel,
    AfterRestore,
    HasTelemetry,
    EmitsEvents,
    EventsOnRequest,
    CanEnd,
    HasScenario,
    HasAdapter,
    CanRehearse,
    KeepsAttempts,
    SuggestsInputs,
    CanRecapture,
    DefersKeyframes,
    HasValueDigest,
    SkipsCapture,
    ComparesValues,
    KeepsValues,
    WatchesValues,
    NamesUnreadValues,
)
SCENARIO_HOOKS: tuple[Callable[..., Any], ...] = (
    HasProperties, HasRoles, AcceptsInputs, HasSamples, HasLabels, HasSessions,
    HasChannels, CountsBuffered, HasDepths, HasConcurrency, HasPolicy, ChoosesPolicy, ReportsProgress,
)  # fmt: skip


def _member_of(kind: Callable[..., Any]) -> str:
    (name,) = (*kind.__annotations__, *(name for name in vars(kind) if not name.startswith("_")))  # Invariant 1
    return name


_MEMBERS = {kind: _member_of(kind) for kind in (*RECORDING_HOOKS, *SCENARIO_HOOKS)}
_METHODS = frozenset(kind for kind, name in _MEMBERS.items() if name in vars(kind))


def hook(simulation: object, kind: Callable[..., _H]) -> _H | None:
    """The simulation, typed as having the member, or None if it does not have it (invariant 2).

    kind: one of the Protocols above. Only the object itself is checked, not an object inside it: for a simulation with
    save and load, pass ``inner_of(simulation)``, which is the user's own object.
    """
    member = getattr(simulation, _MEMBERS[kind], None)
    if member is None or (kind in _METHODS and not callable(member)):
        return None
    return cast("_H", simulation)


def member_name(kind: Callable[..., Any]) -> str:
    """The name of the one member of a Protocol."""
    return _MEMBERS[kind]


def marks_its_writes(simulation: object) -> bool:
    """Return True if all writes of the simulation to its state are marked."""
    has_marks = hook(simulation, MarksWrites)
    return has_marks is not None and bool(has_marks.marks_writes)


def ensure_hooks(simulation: object, kinds: Iterable[Callable[..., Any]] = RECORDING_HOOKS) -> None:
    """Refuse optional methods whose parameters do not fit, before anything depends on them.

    An attribute ``events`` that is not a method is the simulation's own. Other values are checked where they are used.
    Raises TypeError, naming the member.
    """
    for kind in kinds:
        name = _MEMBERS[kind]
        member = getattr(simulation, name, None)
        if member is None or kind not in _METHODS:
            continue
        parameters = list(inspect.signature(vars(kind)[name]).parameters)[1:]
        called = f"{name}({', '.join(parameters)})"
        if not callable(member):
            if kind is EmitsEvents:
                continue
            raise TypeError(
                f"{type(simulation).__name__}.{name}: expected a method, called as {called}, "
                f"got {type(member).__name__}; rename the attribute if it is something else"
            )
        ensure_parameters(simulation, name, parameters)


def ensure_parameters(simulation: object, name: str, parameters: Sequence[str]) -> None:
    """Raise TypeError, naming the method, unless it can be called with these parameters, by position."""
    method = getattr(simulation, name)
    try:
        signature = inspect.signature(method)
    except (TypeError, ValueError):
        return  # Some methods of extension modules do not expose their parameters.
    try:
        signature.bind(*parameters)
    except TypeError as error:
        raise TypeError(
            f"{type(simulation).__name__}.{name}: expected a method that can be called as "
            f"{name}({', '.join(parameters)}), got {name}{signature}: {error}"
        ) from None
