"""The options of a recording: each with its name, type, default, check and meaning, and what META records of it.

Nothing else lists the options. ``Recorder``, ``record`` and all that they call take a RecordingOptions or, where users
name them, ``**options: Unpack[OptionArguments]``; the commands have an option for most of them.

To add an option: a field of RecordingOptions, a key of OptionArguments, and, if users of the command need it, a
parameter of ``record run``.

Invariants:
    1. RecordingOptions and OptionArguments have the same names.
    2. META's ``settings`` has the recorded fields in the order of the class: tapes are compared byte by byte.
    3. RecordingOptions.from_meta(meta) takes back what to_meta() gave, and refuses what it never gives.
"""

from __future__ import annotations

import inspect
import math
import re
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, Self, TypedDict, TypeVar

import attrs

from recorder.format.blocks.file_header import RUN_ID_BYTES
from recorder.settings import (
    BLAMES,
    CHANGE_TRACKINGS,
    DURABILITIES,
    HASHES,
    LINKED_BYTES_MIN,
    MODES,
    ON_ERRORS,
    SEEK_BUDGET_MS_MAX,
    TICKS_MAX,
    Blame,
    ChangeTracking,
    Durability,
    Hashes,
    KeepLimit,
    Mode,
    OnError,
    SplitSize,
    SyncRule,
    check_flag,
    check_whole,
    one_of,
    parse_sync,
    to_keep,
    to_split,
    to_sync,
    to_whole,
)

KEYFRAME_INTERVAL_TICKS = 300  # Ten seconds at 30 ticks a second: what a seek re-simulates at most.
FULL_EVERY = 10  # Deltas grow with the distance to their full keyframe; ten keep them small.
OPTIONS_MARK = "OPTIONS"  # In a docstring: the line that the descriptions of the options replace.

_F = TypeVar("_F", bound=Callable[..., Any])


class OptionArguments(TypedDict, total=False):
    """The options as keyword arguments, for type checkers; see RecordingOptions."""

    keyframe_interval_ticks: int
    full_every: int
    durability: Durability
    sync: str | None
    on_error: OnError
    keep: int | str | None
    split: int | str | None
    deterministic: bool
    blame: Blame
    seek_budget_ms: float | None
    hashes: Hashes
    mode: Mode
    changes: ChangeTracking
    events: bool | None
    run_id: bytes | None
    notes: Mapping[str, Any] | None


_optional = attrs.validators.optional


def _check_budget(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{field.name}={value!r}: a number of milliseconds was expected")
    if not (math.isfinite(value) and 0 < value <= field.metadata["most"]):
        raise ValueError(f"{field.name}={value!r}: more than 0 and up to an hour was expected")


def _check_events(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    if not isinstance(value, bool | None):
        raise TypeError(f"{field.name}={value!r}: True, False or None was expected")


def _check_run_id(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and not isinstance(value, bytes):
        raise TypeError(f"{field.name}={value!r}: {RUN_ID_BYTES} bytes were expected")
    if value is not None and len(value) != RUN_ID_BYTES:
        raise ValueError(f"{field.name}={value!r}: {RUN_ID_BYTES} bytes were expected")


def _check_notes(_: Any, field: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and not isinstance(value, Mapping):
        raise TypeError(f"{field.name}={value!r}: a mapping of names to plain data was expected")


def _to_interval(given: int) -> int:
    return to_whole("keyframe_interval_ticks", given)


def _to_full_every(given: int) -> int:
    return to_whole("full_every", given)


# What META records of a field, as its metadata: under "settings" itself (RECORDED) or the fields of its value (PARTS);
# tapes of programs that did not know it yet mean "older" by its absence, and "omit" leaves it away where it is that.
RECORDED: Mapping[str, Any] = {"recorded": None}


def _parts_of(kind: type) -> Mapping[str, Any]:
    return {"recorded": kind}


@attrs.frozen(kw_only=True)
class RecordingOptions:
    """How a recording is made. Raises TypeError or ValueError, naming the option, for a value that it cannot have.

    Attributes:
        keyframe_interval_ticks: ticks from one keyframe to the next, at least 1.
        full_every: one keyframe of so many is full, at least 1.
        durability: what a kill may cost: "tick" (nothing: a journal), "block" (a second), "none" (what was not written).
        sync: when to force the file to the disk: a time such as "1s" (the default), "block" (each block) or "never".
        on_error: when the disk refuses: "continue" (in memory, trying again, noting what is lost) or "raise".
        keep: a ring: keep only the last so many ticks, or a time such as "60s".
        split: begin a new file at the first keyframe after so many bytes, or a size such as "500MB".
        deterministic: the same simulation and inputs give the same bytes: no clock, no environment; the run id comes
            from the content. A power cut, and a kill with durability "block", cost all since the last full block.
        blame: what frames tell of a desync: hashes of "fields", also of "phases", "none", "auto" (fields, to 1 MiB).
        seek_budget_ms: milliseconds: put keyframes as far apart as lets a seek take about so long, instead of at
            keyframe_interval_ticks.
        hashes: in each frame the hash of the state ("states"), or, with mode="changes" and marks, of what changed
            ("changes", the state's at keyframes only); "auto": the latter from 1 MiB on.
        mode: "events" (inputs and hashes) or "changes" (also what each tick changes: it is reached without a step).
        changes: how to know what changed: "marks" (of the simulation), "scan" (compare all), "pages" (those written),
            "audit" (marks and scan; UnmarkedWriteError where they disagree), "auto" (marks, or pages, or scan).
        events: record what events() gives; by default where a simulation collects them unasked (sim.kernel.hooks).
        run_id: 16 bytes; random by default.
        notes: plain data by name, for META.
    """

    keyframe_interval_ticks: int = attrs.field(
        default=KEYFRAME_INTERVAL_TICKS,
        converter=_to_interval,
        validator=check_whole,
        metadata={**RECORDED, "most": TICKS_MAX},
    )
    full_every: int = attrs.field(
        default=FULL_EVERY, converter=_to_full_every, validator=check_whole, metadata={**RECORDED, "most": TICKS_MAX}
    )
    durability: Durability = attrs.field(default="tick", validator=one_of(DURABILITIES), metadata=RECORDED)
    sync: SyncRule | None = attrs.field(default=None, converter=to_sync, metadata=_parts_of(SyncRule))
    on_error: OnError = attrs.field(default="continue", validator=one_of(ON_ERRORS), metadata=RECORDED)
    keep: KeepLimit = attrs.field(default=None, converter=to_keep, metadata=_parts_of(KeepLimit))
    split: SplitSize = attrs.field(default=None, converter=to_split, metadata=_parts_of(SplitSize))
    deterministic: bool = attrs.field(default=False, validator=check_flag, metadata=RECORDED)
    blame: Blame = attrs.field(default="auto", validator=one_of(BLAMES), metadata={**RECORDED, "older": "none"})
    seek_budget_ms: float | None = attrs.field(
        default=None,
        validator=_optional(_check_budget),
        metadata={**RECORDED, "older": None, "omit": True, "most": SEEK_BUDGET_MS_MAX},
    )
    hashes: Hashes = attrs.field(
        default="auto", validator=one_of(HASHES), metadata={**RECORDED, "older": "states", "omit": True}
    )
    mode: Mode = attrs.field(default="events", validator=one_of(MODES))
    changes: ChangeTracking = attrs.field(default="auto", validator=one_of(CHANGE_TRACKINGS))
    events: bool | None = attrs.field(default=None, validator=_check_events)
    run_id: bytes | None = attrs.field(default=None, validator=_check_run_id)
    notes: Mapping[str, Any] | None = attrs.field(default=None, validator=_check_notes)

    def __attrs_post_init__(self) -> None:
        """Refuse what does not go together, and choose the syncs that suit the durability."""
        if self.sync is None:
            usual = "never" if self.durability == "none" else "1s"
            object.__setattr__(self, "sync", SyncRule(*parse_sync(usual)))
        elif self.durability == "none" and (self.sync_each_block or self.sync_interval_s is not None):
            sync = "block" if self.sync_each_block else f"{self.sync_interval_s:g}s"
            raise ValueError(f'sync={sync!r} with durability="none", which never syncs')
        if self.seek_budget_ms is not None and self.deterministic:
            raise ValueError(
                f"seek_budget_ms={self.seek_budget_ms!r} with deterministic: give keyframe_interval_ticks, no clock"
            )
        if self.keep_s is not None and self.deterministic:
            raise ValueError(f"keep='{self.keep_s:g}s' with deterministic: give a number of ticks, no clock")
        if self.hashes == "changes" and self.mode != "changes":
            raise ValueError('hashes="changes": the changes are on the tape with mode="changes" only')

    @property
    def sync_interval_s(self) -> float | None:
        """Seconds between two syncs; None for never."""
        assert self.sync is not None
        return self.sync.sync_interval_s

    @property
    def sync_each_block(self) -> bool:
        """Each block is synced."""
        assert self.sync is not None
        return self.sync.sync_each_block

    @property
    def keep_ticks(self) -> int | None:
        """Of a ring, how many ticks are kept at least; None for no such limit."""
        return self.keep.keep_ticks

    @property
    def keep_s(self) -> float | None:
        """Of a ring, how many seconds are kept at least; None for no such limit."""
        return self.keep.keep_s

    @property
    def split_bytes(self) -> int | None:
        """From which size on a new file is begun; None for never."""
        return self.split.split_bytes

    @property
    def is_ring(self) -> bool:
        """Only the last ticks are kept."""
        return self.keep_ticks is not None or self.keep_s is not None

    def with_chosen_hashes(self, state_bytes: int, *, marks: bool) -> Self:
        """The same options with "auto" replaced by the hashes that suit the simulation.

        state_bytes: of its state. marks: its changes are known by marks.
        Raises ValueError if hashes of changes are asked for and it does not mark them.
        """
        if self.hashes == "auto":
            are_linked = self.mode == "changes" and marks and state_bytes >= LINKED_BYTES_MIN
            return attrs.evolve(self, hashes="changes" if are_linked else "states")
        if self.hashes == "changes" and not marks:
            raise ValueError('hashes="changes": the simulation does not mark what it writes; give hashes="states"')
        return self

    def to_meta(self) -> dict[str, Any]:
        """What META records under ``settings`` (invariant 2); hashes must have been chosen."""
        assert self.hashes != "auto"
        found: dict[str, Any] = {}
        for field in _recorded_fields():
            value = getattr(self, field.name)
            if field.metadata["recorded"] is not None:
                found |= attrs.asdict(value)
            elif not (field.metadata.get("omit") and value == field.metadata["older"]):
                found[field.name] = value
        return found

    @classmethod
    def from_meta(cls, meta: Mapping[str, Any]) -> Self:
        """The options that a tape was recorded with.

        Raises KeyError if its settings have other names than to_meta() gives, TypeError or ValueError for other values.
        """
        known = dict(meta["settings"])
        arguments: dict[str, Any] = {}
        for field in _recorded_fields():
            kind = field.metadata["recorded"]
            if kind is not None:
                arguments[field.name] = kind(*(known.pop(part.name) for part in attrs.fields(kind)))
            elif "older" in field.metadata:
                arguments[field.name] = known.pop(field.name, field.metadata["older"])
            else:
                arguments[field.name] = known.pop(field.name)
        if known:
            raise KeyError(*sorted(map(str, known)))
        if arguments["hashes"] == "auto":
            raise ValueError('hashes=\'auto\': "states" or "changes" was expected')
        events, notes = meta.get("event_stream"), meta.get("notes")
        return cls(
            **arguments,
            mode=meta.get("mode", "events"),
            events=events if isinstance(events, bool) else None,
            notes=notes if isinstance(notes, Mapping) else None,
        )


def _recorded_fields() -> list[attrs.Attribute[Any]]:
    return [field for field in attrs.fields(RecordingOptions) if "recorded" in field.metadata]


def takes_options(defaults: OptionArguments | None = None) -> Callable[[_F], _F]:
    """Let ``inspect.signature`` and ``help`` show the options of a function that takes ``**options``.

    defaults: those in which the function differs from RecordingOptions. A line OPTIONS_MARK in the function's docstring
    is replaced by the descriptions of the options. (python -OO leaves no docstrings.)
    """
    own = defaults or {}

    def show(function: _F) -> _F:
        shown = inspect.signature(function)
        others = [one for one in shown.parameters.values() if one.kind is not one.VAR_KEYWORD]
        hints = OptionArguments.__annotations__
        options = [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=own.get(field.name, field.default),
                annotation=hints[field.name].__forward_arg__,
            )
            for field in attrs.fields(RecordingOptions)
        ]
        function.__signature__ = shown.replace(parameters=[*others, *options])  # type: ignore[attr-defined]
        mark = re.search(rf"^( *){OPTIONS_MARK}$", function.__doc__ or "", re.MULTILINE)
        if mark is not None:
            described = inspect.cleandoc(RecordingOptions.__doc__ or "").partition("Attributes:\n")[2]
            lines = textwrap.indent(textwrap.dedent(described), mark[1])
            function.__doc__ = f"{mark.string[: mark.start()]}{lines}{mark.string[mark.end() :]}"
        return function

    return show
