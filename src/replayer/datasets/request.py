"""The request of an extraction: ticks, tables, columns and splits."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, Literal

import attrs

from recorder.errors import RecordingError
from recorder.location.tape_location import Location, tape_location
from recorder.location.tape_url import TapeUrl
from recorder.storage.remote.url_folder import is_folder, list_folder
from sim.near_names import did_you_mean

TABLES = ("transitions", "states", "pairs", "actions", "events")
RECORDS = ("actions", "events")  # Tables whose columns are known only when all rows are known.
PROOFS = ("ticks", "sampled")
SAMPLED_TICKS = 300  # The default interval of keyframes.
MODES = ("all", "inputs", "winners", "balanced")
AGENT_FUNCTIONS = {  # With what each is called.
    "agent_names": "(simulation)",
    "agent_observation": "(simulation, agent)",
    "agent_actions": "(simulation, ...), with the arguments of the step",
    "agent_reward": "(simulation, agent)",
}

AgentFunction = Callable[..., Any] | str | None

_RANGE = re.compile(r"(-?\d+)?\.\.(-?\d+)?")


class ExtractionError(RecordingError):
    """A request that cannot be met; the message gives the reason."""


class ExtractionWarning(UserWarning):
    """Rows are missing in a table that was read, or are of different environments."""


def _to_tuple(values: Iterable[Any] | str) -> tuple[Any, ...]:
    """Return the names as a tuple, each once."""
    return (values,) if isinstance(values, str) else tuple(dict.fromkeys(values))


def _at_least_one(_: Any, attribute: attrs.Attribute[int], value: int) -> None:
    if not is_whole(value) or value < 1:
        raise ExtractionError(f"{attribute.name}: expected an integer of at least 1, got {value!r:.60}")


def is_whole(value: object) -> bool:
    """Return True for an integer, of Python or NumPy, that is no bool."""
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _to_splits(splits: Any) -> tuple[tuple[str, float], ...]:
    """Return shares as pairs; they may be a dict. Raises ExtractionError for anything that is no shares by name."""
    pairs = splits.items() if isinstance(splits, Mapping) else splits
    try:
        return tuple((name, share) for name, share in pairs)
    except (TypeError, ValueError):
        raise ExtractionError(
            f'splits: expected shares by name, such as {{"train": 0.8, "test": 0.2}}, got {splits!r:.60}'
        ) from None


@attrs.frozen
class Request:
    """The ticks, tables and columns to extract.

    Attributes:
        stride: ticks from one sample to the next.
        ranges: first and last tick of each range, both included. None stands for the tape's own first or last tick,
            negative ticks count from the end. Empty is the complete tape. Sampling starts at the first tick of each range.
        tables: transitions (the steps of environments, or of a simulation with agent_names), states (the fields), pairs
            (training pairs), actions (a row for each input of an agent), events (a row for each event of the simulation).
        fields: the fields of states; all if empty. In pairs, fields in addition to the observations. In transitions, the
            parts of the observation, all if empty.
        observations: of pairs: names that the world defines, or module:function.
        info: True adds the infos to transitions.
        agents: the agents of transitions, pairs and actions; None is all that the world names.
        actions: the encodings of actions in pairs: names that the world defines, or module:function. None is the world's
            own encoding, if it has one, or else the inputs if they are numbers of one shape; () leaves actions out.
        rewards: names that the world defines, or module:function.
        lists: names of arrays in the user's observations whose lengths change; of those with more axes, the first axis.
        long: states as one row for each entity or cell, instead of one for each tick.
        proof: of the transitions of a Gymnasium environment whose values are single numbers or arrays. ticks: the state at
            each tick is compared with its recorded hash. sampled: one state in at most SAMPLED_TICKS is; the steps between
            take no state, which is faster. A difference that has gone before the next such state is then not noticed.
        mode: of pairs and actions: all, inputs (only pairs in which the agent sent something), winners (only agents that
            won), balanced (as many agents that won as lost, or drew, if any did).
        splits: shares of the runs by the name of the split, such as {"train": 0.8, "test": 0.2} or (("train", 0.8), ("test", 0.2)),
            1 in sum; empty is no split.
        seed: of the random choice of splits and of balanced agents.
        agent_names, agent_observation, agent_actions, agent_reward: of your own simulation, functions or module:function,
            which take the place of its methods of the same name. They get the simulation before the method's arguments.

    Raises ExtractionError for values that are not allowed.
    """

    stride: int = attrs.field(default=1, validator=_at_least_one)
    ranges: tuple[tuple[int | None, int | None], ...] = ()
    tables: tuple[str, ...] = attrs.field(default=(), converter=_to_tuple)
    fields: tuple[str, ...] = attrs.field(default=(), converter=_to_tuple)
    observations: tuple[str, ...] = attrs.field(default=(), converter=_to_tuple)
    agents: tuple[str, ...] | None = attrs.field(default=None, converter=attrs.converters.optional(_to_tuple))
    actions: tuple[str, ...] | None = attrs.field(default=None, converter=attrs.converters.optional(_to_tuple))
    rewards: tuple[str, ...] = attrs.field(default=(), converter=_to_tuple)
    lists: tuple[str, ...] = attrs.field(default=(), converter=_to_tuple)
    long: bool = False
    info: bool = False
    proof: Literal["ticks", "sampled"] = "ticks"
    mode: Literal["all", "inputs", "winners", "balanced"] = "all"
    splits: tuple[tuple[str, float], ...] = attrs.field(default=(), converter=_to_splits)
    seed: int = 0
    agent_names: AgentFunction = None
    agent_observation: AgentFunction = None
    agent_actions: AgentFunction = None
    agent_reward: AgentFunction = None

    @property
    def agent_functions(self) -> dict[str, Callable[..., Any] | str]:
        """The functions of agents that are given, by the name of the method whose place they take."""
        given = {name: getattr(self, name) for name in AGENT_FUNCTIONS}
        return {name: function for name, function in given.items() if function is not None}

    def plain(self) -> dict[str, Any]:
        """Return the request for the manifest, with the names of functions."""
        functions = {name: name_of_function(one) for name, one in self.agent_functions.items()}
        shared = attrs.asdict(self, filter=lambda attribute, _: attribute.name not in AGENT_FUNCTIONS)
        return shared | functions

    def __attrs_post_init__(self) -> None:
        given: dict[str, Any] = dict(self.agent_functions)
        for name, function in given.items():
            is_name = isinstance(function, str) and ":" in function
            if not (is_name or callable(function)):
                raise ExtractionError(
                    f"{name}: expected a function of {AGENT_FUNCTIONS[name]}, or its name as module:function, got "
                    f"{function!r:.60}"
                )
        for kind, names, choices in (
            ("table", self.tables, TABLES),
            ("mode", (self.mode,), MODES),
            ("proof", (self.proof,), PROOFS),
        ):
            unknown = next((name for name in names if name not in choices), None)
            if unknown is not None:
                raise ExtractionError(f"there is no {kind} {unknown}; {kind}s: {', '.join(choices)}")
        if self.splits:
            _check_splits(self.splits)


def make_request(wanted: Mapping[str, Any], others: Mapping[str, Any] | None = None) -> Request:
    """Return the request of keyword arguments. others: the ``__kwdefaults__`` of a caller with arguments of its own.

    Raises TypeError for a name that is no argument, with the nearest ones, and ExtractionError as Request does.
    """
    names = [field.name for field in attrs.fields(Request)]
    unknown = next((name for name in wanted if name not in names), None)
    if unknown is not None:
        known = [*{**(others or {}), **dict.fromkeys(names)}]
        hint = did_you_mean(unknown, known) or f"; the arguments are {', '.join(known)}"
        raise TypeError(f"there is no argument {unknown}{hint}")
    return Request(**wanted)


def name_of_function(function: Callable[..., Any] | str) -> str:
    """The name of a function as module:function."""
    if isinstance(function, str):
        return function
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}:{named.__qualname__}"


def _check_splits(splits: Sequence[tuple[str, float]]) -> None:
    names = [str(name) for name, _ in splits]
    if len(set(names)) != len(names) or not all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", name) for name in names):
        raise ExtractionError(f"splits: expected different names of letters, digits, _ and -, got {', '.join(names)}")
    shares = [share for _, share in splits]
    shown = ", ".join(f"{name}={share!r:.20}" for name, share in splits)
    if not all(isinstance(share, Real) and share > 0 for share in shares):
        raise ExtractionError(f"splits: expected shares above 0 that are 1 in sum, got {shown}")
    if abs(sum(shares) - 1) > 1e-9:  # Rounding.
        raise ExtractionError(f"splits: expected shares that are 1 in sum, got {shown}: {sum(shares):.6g} in sum")


def list_tapes(paths: Iterable[str | os.PathLike[str]]) -> list[Location]:
    """List the tapes; a folder stands for the tapes in it. Raises ExtractionError if there are none, OSError."""
    tapes: list[Location] = []
    for path in map(tape_location, paths):
        inside = _tapes_at(path)
        if not inside:
            raise ExtractionError(
                f"there is no tape in {path}: name a folder that record generate or record run wrote to"
            )
        tapes += inside
    if not tapes:
        raise ExtractionError("no tape was given: name tapes, or folders of tapes")
    return tapes


def _tapes_at(path: Location) -> Sequence[Location]:
    """The tapes of a folder, or the one tape at a location."""
    if isinstance(path, TapeUrl):
        names = sorted(list_folder(path)) if is_folder(path) else None
        return [path] if names is None else [path / name for name in names if name.endswith(".tape")]
    if not path.is_dir():
        return [path]
    os.scandir(path).close()  # glob takes a folder that cannot be read for an empty one.
    return sorted(path.glob("*.tape"))


def read_range(text: str) -> tuple[int | None, int | None]:
    """Read a range FIRST..LAST, both included; either may be missing. Raises ExtractionError."""
    match = _RANGE.fullmatch(text)
    if match is None:
        raise ExtractionError(f"ticks {text}: expected a range such as 100..500, 100.. or ..-1")
    first, last = (None if part is None else int(part) for part in match.groups())
    return first, last


def read_splits(text: str) -> tuple[tuple[str, float], ...]:
    """Read shares as NAME=SHARE, separated by commas, such as train=0.8,test=0.2. Raises ExtractionError."""
    splits = []
    for part in text.split(","):
        name, _, share = part.strip().partition("=")
        try:
            splits.append((name, float(share)))
        except ValueError:
            raise ExtractionError(f"split {part}: expected NAME=SHARE, such as train=0.8,test=0.2") from None
    _check_splits(splits)
    return tuple(splits)
