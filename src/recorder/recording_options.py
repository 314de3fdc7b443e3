"""The options of a recording: each with its name, type, default, check, meaning and form in META.

This is the only list of the options. ``Recorder``, ``record`` and everything that they call take a RecordingOptions or,
where users name the options, ``**options: Unpack[OptionArguments]``. The commands have an option for most of them.

To add an option: add a field to RecordingOptions, a key to OptionArguments, and, if users of the command need it, a
parameter to ``record run``.

Invariants:
    1. RecordingOptions and OptionArguments have the same names.
    2. META's ``settings`` has the recorded fields in the order of the class: tapes are compared byte by byte.
    3. RecordingOptions.from_meta(meta) restores the result of to_meta(), and refuses anything else.
"""

from __future__ import annotations

import difflib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self, TypedDict, TypeVar

import attrs

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
    TRIAL_MS_MAX,
    Blame,
    ChangeTracking,
    Durability,
    Hashes,
    KeepLimit,
    Mode,
    OnDesync,
    OnError,
    SplitSize,
    SyncRule,
    check_budget,
    check_choice,
    check_flag,
    check_function,
    check_notes,
    check_on_desync,
    check_run_id,
    check_trial,
    check_whole,
    one_of,
    parse_sync,
    to_keep,
    to_split,
    to_sync,
    to_whole,
)

KEYFRAME_INTERVAL_TICKS = 300  # Ten seconds at 30 ticks a second: a seek re-simulates at most this many ticks.
FULL_EVERY = 10  # Deltas grow with the distance to their full keyframe; ten keep them small.
TRIAL_MS = 50.0  # A tenth of what importing NumPy and this package takes.
FUNCTIONS = "output_functions"  # In META: the names of those that were given.
NEAR = 0.5  # The similarity from which a name is offered in place of an unknown one.
OPTIONS_MARK = "OPTIONS"  # In a docstring: the line that the descriptions of the options replace.

_F = TypeVar("_F", bound=Callable[..., Any])
_VAR_KEYWORD = inspect.Parameter.VAR_KEYWORD


class OptionArguments(TypedDict, total=False):
    """The options as keyword arguments, for type checkers; see RecordingOptions."""

    keyframe_interval_ticks: int
    keyframe_interval_max_ticks: int | None
    full_every: int
    durability: Durability
    sync: str | None
    on_error: OnError
    keep: int | str | None
    split: int | str | None
    deterministic: bool
    blame: Blame
    seek_budget_ms: float | None
    keyframe_after_ms: float | None
    hashes: Hashes
    mode: Mode
    changes: ChangeTracking
    events: bool | Callable[[Any], Sequence[dict[str, Any]]] | None
    telemetry: Callable[[Any], Mapping[str, Any]] | None
    aux: Callable[[Any], Mapping[str, Any]] | None
    run_id: bytes | None
    notes: Mapping[str, Any] | None
    trial_ms: float
    between_steps: bool | None
    on_desync: OnDesync
    writes: bool


_optional = attrs.validators.optional


def _to_interval(interval_ticks: int) -> int:
    return to_whole("keyframe_interval_ticks", interval_ticks)


def _to_interval_max(interval_ticks: int | None) -> int | None:
    return None if interval_ticks is None else to_whole("keyframe_interval_max_ticks", interval_ticks)


def _to_full_every(full_every: int) -> int:
    return to_whole("full_every", full_every)


# Metadata of a field that META records under "settings": as itself (RECORDED), or as the fields of its value (_parts_of).
# "older" is the value of tapes that were recorded before the option existed; "omit" leaves it out if it has that value.
RECORDED: Mapping[str, Any] = {"recorded": None}


def _parts_of(kind: type) -> Mapping[str, Any]:
    return {"recorded": kind}


@attrs.frozen(kw_only=True)
class RecordingOptions:
    """Options of a recording. A bad value raises TypeError or ValueError that names the option.

    Attributes:
        keyframe_interval_ticks: ticks from one keyframe to the next, at least 1.
        keyframe_interval_max_ticks: let that distance grow with the run, up to this many ticks: half of the ticks so
            far, in multiples of keyframe_interval_ticks. Not with keep.
        full_every: every Nth keyframe is full, at least 1.
        durability: what a killed process may lose: "tick" (nothing, with a journal), "block" (up to a second) or
            "none" (everything not yet written).
        sync: when to force the file to the disk: a time such as "1s" (the default), "block" (each block) or "never".
        on_error: when the disk refuses writes: "continue" (in memory, with retries; lost ticks are noted) or "raise".
        keep: record a ring that keeps only the last N ticks, or a time such as "60s".
        split: begin a new file at the first keyframe after N bytes, or after a size such as "500MB".
        deterministic: the same simulation and inputs give the same bytes: no clock, no environment; the run id comes
            from the content. A power cut, or a kill with durability "block", loses all since the last full block.
        blame: per-field hashes in each frame, to locate a desync: "fields", "phases" (fields and phases), "none" or
            "auto" (fields, for states up to 1 MiB; record() has further limits).
        seek_budget_ms: space the keyframes so that a seek takes about this many milliseconds, instead of every
            keyframe_interval_ticks.
        keyframe_after_ms: take a keyframe early, before keyframe_interval_ticks, when the steps since the last one have
            taken this many milliseconds; at most a tenth of the run's time is spent on that.
        hashes: the hash in each frame: of the state ("states"), or, with mode="changes" and marks, of the changes
            ("changes"; keyframes still have the hash of the state). "auto" uses changes from 1 MiB on.
        mode: "events" (inputs and hashes) or "changes" (also the changes of each tick: a seek needs no step).
        changes: how changes are found: "marks" (the simulation's), "scan" (compare everything), "pages" (those
            written), "audit" (marks and scan; UnmarkedWriteError where they disagree; of captured objects the whole
            state, again at each tick), "auto" (marks, pages or scan).
        events: record the result of events(); by default for simulations that always collect them (sim.kernel.hooks). Or
            a function that is called with the recorded object after each step, and returns the events of that step.
        telemetry: a function that is called with the recorded object after each step, and returns figures by name. It
            may only read the object; in place of the simulation's own telemetry().
        aux: a function that is called as telemetry is, and returns sections by name, plain data: what others keep beside
            the state, such as a camera or a script. No hash covers them; they are written only when they change.
        run_id: 16 bytes; random by default.
        notes: plain data by name, for META.
        trial_ms: try the simulation first for about this many milliseconds, in copies of the process: restored and run
            again, it must give the same states and results. 0 disables it; so does mode "changes".
        between_steps: compare the state before each step with the one that the last step left, and warn at once, with
            the path, if other code changed it. By default the first steps are compared, for 3 ms, without a warning: a
            change is noted at the end of the tape, for a tick that differs in a replay.
        writes: note at each keyframe which rows were marked as written since the last one: ``replay who`` skips by it.
        on_desync: when a peer's hash differs (report_hash): "raise" (PeerDesyncError), "warn", or a function that takes
            the error; once for each divergence, after its dump was written.
    """

    keyframe_interval_ticks: int = attrs.field(
        default=KEYFRAME_INTERVAL_TICKS,
        converter=_to_interval,
        validator=check_whole,
        metadata={**RECORDED, "maximum": TICKS_MAX},
    )
    keyframe_interval_max_ticks: int | None = attrs.field(
        default=None,
        converter=_to_interval_max,
        validator=_optional(check_whole),
        metadata={**RECORDED, "older": None, "omit": True, "maximum": TICKS_MAX},
    )
    full_every: int = attrs.field(
        default=FULL_EVERY, converter=_to_full_every, validator=check_whole, metadata={**RECORDED, "maximum": TICKS_MAX}
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
        validator=_optional(check_budget),
        metadata={**RECORDED, "older": None, "omit": True, "maximum": SEEK_BUDGET_MS_MAX},
    )
    keyframe_after_ms: float | None = attrs.field(
        default=None,
        validator=_optional(check_budget),
        metadata={**RECORDED, "older": None, "omit": True, "maximum": SEEK_BUDGET_MS_MAX},
    )
    hashes: Hashes = attrs.field(
        default="auto", validator=one_of(HASHES), metadata={**RECORDED, "older": "states", "omit": True}
    )
    mode: Mode = attrs.field(default="events", validator=one_of(MODES))
    changes: ChangeTracking = attrs.field(default="auto", validator=one_of(CHANGE_TRACKINGS))
    events: bool | Callable[[Any], Any] | None = attrs.field(default=None, validator=check_function)
    telemetry: Callable[[Any], Any] | None = attrs.field(default=None, validator=check_function)
    aux: Callable[[Any], Any] | None = attrs.field(default=None, validator=check_function)
    run_id: bytes | None = attrs.field(default=None, validator=check_run_id)
    notes: Mapping[str, Any] | None = attrs.field(default=None, validator=check_notes)
    trial_ms: float = attrs.field(default=TRIAL_MS, validator=check_trial, metadata={"maximum": TRIAL_MS_MAX})
    between_steps: bool | None = attrs.field(
        default=None, validator=check_choice, metadata={**RECORDED, "older": None, "omit": True}
    )
    on_desync: OnDesync = attrs.field(default="raise", validator=check_on_desync)
    writes: bool = attrs.field(default=False, validator=check_flag, metadata={**RECORDED, "older": False, "omit": True})

    def __attrs_post_init__(self) -> None:
        """Refuse contradictory options, and choose the syncs that suit the durability."""
        if self.sync is None:
            usual = "never" if self.durability == "none" else "1s"
            object.__setattr__(self, "sync", SyncRule(*parse_sync(usual)))
        elif self.durability == "none" and (self.sync_each_block or self.sync_interval_s is not None):
            sync = "block" if self.sync_each_block else f"{self.sync_interval_s:g}s"
            raise ValueError(f'sync={sync!r} with durability="none", which never syncs: give one of them')
        for name in ("seek_budget_ms", "keyframe_after_ms"):
            if getattr(self, name) is not None and self.deterministic:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} with deterministic, which uses no clock: "
                    "give keyframe_interval_ticks instead"
                )
        if self.seek_budget_ms is not None and self.keyframe_after_ms is not None:
            raise ValueError(
                f"keyframe_after_ms={self.keyframe_after_ms!r} with seek_budget_ms, which alone places the keyframes: "
                "give one of them"
            )
        self._check_growing_interval()
        if self.keep_s is not None and self.deterministic:
            raise ValueError(
                f"keep='{self.keep_s:g}s' with deterministic, which uses no clock: give a number of ticks instead"
            )
        if self.hashes == "changes" and self.mode != "changes":
            raise ValueError('hashes="changes" with mode="events", which records no changes: give mode="changes"')

    def _check_growing_interval(self) -> None:  # A ring drops ticks at keyframes: it would grow with their distance.
        most, least = self.keyframe_interval_max_ticks, self.keyframe_interval_ticks
        if most is not None and most < least:
            raise ValueError(
                f"keyframe_interval_max_ticks={most!r}: expected at least {least!r} (keyframe_interval_ticks)"
            )
        other = "seek_budget_ms" if self.seek_budget_ms is not None else "keep" if self.is_ring else None
        if most is not None and other is not None:
            raise ValueError(f"keyframe_interval_max_ticks={most!r} with {other}: give one of them")

    @classmethod
    def of(cls, arguments: OptionArguments, further: Iterable[str] = ()) -> Self:
        """The options of keyword arguments. Raises TypeError for a name that is not an option, with the nearest ones.

        further: other names of keyword arguments that the caller takes.
        """
        names = [field.name for field in attrs.fields(cls)]
        unknown = [name for name in arguments if name not in names]
        if unknown:
            near = difflib.get_close_matches(unknown[0], [*names, *further], 2, NEAR)
            hint = f"use {' or '.join(near)}" if near else f"the options are {', '.join(names)}"
            raise TypeError(f"expected an option of a recording, got {unknown[0]}=...: {hint}")
        return cls(**arguments)

    @property
    def sync_interval_s(self) -> float | None:
        """Seconds between two syncs; None disables them."""
        assert self.sync is not None
        return self.sync.sync_interval_s

    @property
    def sync_each_block(self) -> bool:
        """True if the file is synced after each block."""
        assert self.sync is not None
        return self.sync.sync_each_block

    @property
    def keep_ticks(self) -> int | None:
        """The minimum number of ticks that a ring keeps; None for no such limit."""
        return self.keep.keep_ticks

    @property
    def keep_s(self) -> float | None:
        """The minimum number of seconds that a ring keeps; None for no such limit."""
        return self.keep.keep_s

    @property
    def split_bytes(self) -> int | None:
        """The size in bytes from which a new file is begun; None for a single file."""
        return self.split.split_bytes

    @property
    def is_ring(self) -> bool:
        """True if only the last ticks are kept."""
        return self.keep_ticks is not None or self.keep_s is not None

    @property
    def output_functions(self) -> dict[str, Callable[[Any], Any]]:
        """The functions of the user that make outputs of each tick, by the names of their options."""
        given = {name: getattr(self, name) for name in ("telemetry", "events", "aux")}
        return {name: function for name, function in given.items() if callable(function)}

    def with_chosen_hashes(self, state_bytes: int, *, marks: bool) -> Self:
        """Return these options with hashes="auto" replaced by the kind of hashes that suits the simulation.

        state_bytes: size of its state. marks: True if it marks its writes.
        Raises ValueError for hashes="changes" if it does not mark its writes.
        """
        if self.hashes == "auto":
            are_linked = self.mode == "changes" and marks and state_bytes >= LINKED_BYTES_MIN
            return attrs.evolve(self, hashes="changes" if are_linked else "states")
        if self.hashes == "changes" and not marks:
            raise ValueError('hashes="changes": the simulation does not mark what it writes; give hashes="states"')
        return self

    def to_meta(self) -> dict[str, Any]:
        """The table ``settings`` of META (invariant 2); hashes must have been chosen."""
        assert self.hashes != "auto"
        settings: dict[str, Any] = {}
        for field in _recorded_fields():
            value = getattr(self, field.name)
            if field.metadata["recorded"] is not None:
                settings |= attrs.asdict(value)
            elif not (field.metadata.get("omit") and value == field.metadata["older"]):
                settings[field.name] = value
        return settings

    @classmethod
    def from_meta(cls, meta: Mapping[str, Any]) -> Self:
        """The options that a tape was recorded with.

        Raises KeyError for names that to_meta() never gives, TypeError or ValueError for such values.
        """
        settings = dict(meta["settings"])
        arguments: dict[str, Any] = {}
        for field in _recorded_fields():
            kind = field.metadata["recorded"]
            if kind is not None:
                arguments[field.name] = kind(*(settings.pop(part.name) for part in attrs.fields(kind)))
            elif "older" in field.metadata:
                arguments[field.name] = settings.pop(field.name, field.metadata["older"])
            else:
                arguments[field.name] = settings.pop(field.name)
        if settings:
            raise KeyError(*sorted(map(str, settings)))
        if arguments["hashes"] == "auto":
            raise ValueError('hashes=\'auto\': expected "states" or "changes"')
        events, notes = meta.get("event_stream"), meta.get("notes")
        return cls(
            **arguments,
            mode=meta.get("mode", "events"),
            events=events if isinstance(events, bool) and "events" not in meta.get(FUNCTIONS, ()) else None,
            notes=notes if isinstance(notes, Mapping) else None,
        )


def _recorded_fields() -> list[attrs.Attribute[Any]]:
    return [field for field in attrs.fields(RecordingOptions) if "recorded" in field.metadata]


def takes_options(defaults: OptionArguments | None = None) -> Callable[[_F], _F]:
    """Make ``inspect.signature`` and ``help`` list the options of a function that takes ``**options``.

    defaults: the defaults that differ from those of RecordingOptions. A line OPTIONS_MARK in the function's docstring
    is replaced by the descriptions of the options. (python -OO removes docstrings.)
    """
    own_defaults = defaults or {}

    def decorate(function: _F) -> _F:
        signature = inspect.signature(function)
        parameters = [parameter for parameter in signature.parameters.values() if parameter.kind is not _VAR_KEYWORD]
        hints = OptionArguments.__annotations__
        options = [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=own_defaults.get(field.name, field.default),
                annotation=hints[field.name].__forward_arg__,
            )
            for field in attrs.fields(RecordingOptions)
        ]
        function.__signature__ = signature.replace(parameters=[*parameters, *options])  # type: ignore[attr-defined]
        mark = re.search(rf"^( *){OPTIONS_MARK}$", function.__doc__ or "", re.MULTILINE)
        if mark is not None:
            descriptions = inspect.cleandoc(RecordingOptions.__doc__ or "").partition("Attributes:\n")[2]
            lines = textwrap.indent(textwrap.dedent(descriptions), mark[1])
            function.__doc__ = f"{mark.string[: mark.start()]}{lines}{mark.string[mark.end() :]}"
        return function

    return decorate
