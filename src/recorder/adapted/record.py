"""Record any supported simulation in one line: find its adapter and print what is captured."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any, TypeVar, Unpack

from recorder.adapted.first_trial import is_tried, needs_arguments, try_first
from recorder.adapted.later_trial import STEPS, LaterTrial, can_be_tried_later
from recorder.ambient.outside.outside_note import KEY, NOTHING_READ, NotedReads, reads_note
from recorder.errors import RecordingWarning
from recorder.recording_options import OptionArguments, RecordingOptions, takes_options
from recorder.session.recorder import Recorder
from recorder.storage.tape_files import ensure_new
from recorder.trial.check_command import check_command
from recorder.trial.trial_report import TrialReport
from sim.adapters.find_adapter import adapt, adapter_of
from sim.adapters.interface.adapter_registry import Adapter
from sim.adapters.plain_object.adapter import ADAPTER as PLAIN_OBJECT
from sim.adapters.plain_object.adapter import Fields
from sim.kernel.class_names import why_not_importable
from sim.kernel.exactness import Level
from sim.kernel.hooks import CanRehearse, HasAdapter, hook
from sim.kernel.simulation import inner_of, subject_of
from sim.kernel.state import State
from sim.user_warning import warn_user

# For programs that record their own simulation, often by hand. A slow step has more keyframes: a seek takes a fraction
# of a second.
DEFAULTS: OptionArguments = {"trial_ms": 200.0, "keyframe_after_ms": 200.0}

# Further apart in long runs of short steps: a keyframe costs as much as some forty of them, and its part of a verification
# as much as some thousand. 3,000 steps of CartPole are repeated in less than a tenth of a second.
SHORT_STEPS_INTERVAL_MAX = 3_000

# More per-field hashes would cost as much as everything else that is recorded of a tick. So they would for the short
# steps of environments: a tape of CartPole is twice as large with them.
FIELDS_HASHED_MAX = 100

# Options that place keyframes, or end files at them.
_SPACING = {"keyframe_interval_ticks", "keyframe_interval_max_ticks", "seek_budget_ms", "keep", "split"}

_S = TypeVar("_S")


@takes_options(DEFAULTS)
def record(
    subject: _S,
    path: str | os.PathLike[str],
    what: Fields | None = None,
    *,
    step: str | Iterable[str] | None = None,
    level: Level | str | None = None,
    trust: bool = False,
    ignore: tuple[str, ...] | list[str] = (),
    quiet: bool = False,
    **options: Unpack[OptionArguments],
) -> _S:
    """Record your simulation from now on. Use the returned object in its place; close it to seal the tape.

    subject: a Gymnasium environment or another object that an installed adapter supports, or any Python object with a
    method that makes a step. The returned object behaves as subject does, and is of its type for type checkers. It is
    a context manager as well; ``tape_of`` gives its recorder, ``.subject`` subject itself.
    step: the name of a Python object's method that makes a step, "step" by default; with further names, calls of these
    are recorded, too (by default those of ``reset``). what: fields(...) names the attributes that are its state; by
    default all of them.
    quiet: do not print the line on stderr that lists what is captured and what is not.
    level: "exact", "canonical" or "inputs_only", where the adapter offers a choice; by default the best available.
    trust: pickle what cannot be saved in another way. ignore: attributes that are known not to affect any step.

    The other options are those of Recorder. A kill loses no step that returned, which costs a microsecond or two a step;
    with durability "block" it loses up to a second of steps. Per-field hashes (blame) name the fields of a desync at its
    own tick; "auto" records them for objects with up to 100 fields, not for environments and MuJoCo data, whose steps are
    short. A keyframe comes after 300 ticks, or earlier, once the steps since the last one have taken keyframe_after_ms;
    not if deterministic, keyframe_interval_ticks or seek_budget_ms is given. In long runs of environments and MuJoCo data
    keyframes are further apart: half of the ticks so far, at most 3,000.

    Raises NoAdapterError if it cannot be recorded, TypeError if it has no such step, NotCapturedError if it holds
    something that cannot be saved (nothing is written then), and what Recorder raises.

    Examples:
        >>> dice = recorder.record(Dice(), "dice.tape", step="roll", quiet=True)
        >>> dice.roll(3)
        >>> dice.close()
    """
    arguments: OptionArguments = {**DEFAULTS, **options}
    if "keyframe_after_ms" not in options and (
        options.get("deterministic") or not options.keys().isdisjoint(("keyframe_interval_ticks", "seek_budget_ms"))
    ):
        arguments["keyframe_after_ms"] = None  # Their own spacing is what was asked for.
    settings = RecordingOptions.of(arguments, ("what", "step", "level", "trust", "ignore", "quiet"))
    _ensure_in_order(subject, path)
    ensure_new(path)  # Before a survey and a trial, which take a while.
    simulation = adapt(subject, what, step=step, level=level, trust=trust, ignore=ignore)
    rehearsing = hook(simulation, CanRehearse)
    if rehearsing is not None:
        rehearsing.rehearse()  # Reports problems that appear only after some steps before anything is written.
    is_tried_later = needs_arguments(simulation) and is_tried(simulation, settings) and can_be_tried_later()
    steps = STEPS if is_tried_later else 0
    report = try_first(
        simulation, adapter_of(subject, what), settings, check_command(simulation, path), quiet=quiet, later_steps=steps
    )
    arguments["trial_ms"] = 0.0  # Tried already.
    if adapter_of(subject, what).has_short_steps and options.keys().isdisjoint(_SPACING):
        arguments["keyframe_interval_max_ticks"] = SHORT_STEPS_INTERVAL_MAX
    if settings.blame == "auto" and not _affords_field_hashes(simulation, adapter_of(subject, what)):
        arguments["blame"] = "none"
    kind = TriedRecorder if is_tried_later else ObjectRecorder
    noted = (report.reads if report is not None else None) or (NOTHING_READ if settings.trial_ms else None)
    tape = kind.with_options(path, simulation, RecordingOptions.of(arguments), noted)
    if isinstance(tape, TriedRecorder):
        tape.later = LaterTrial(simulation, settings, path, quiet=quiet)
    if not quiet:
        _tell(simulation, path, report)
        hint = why_not_importable(type(subject)) if adapter_of(subject, what) is PLAIN_OBJECT else None
        if hint is not None:
            print(f"recording {os.fspath(path)}: {hint}", file=sys.stderr)
    return adapter_of(subject, what).door(simulation, tape)  # type: ignore[no-any-return]


def _tell(simulation: Any, path: str | os.PathLike[str], report: TrialReport | None) -> None:
    """Say in one line what is captured, and how far a trial has shown that it is enough."""
    line = simulation.report().line(
        is_tested=report is not None and report.is_tested,
        is_whole=report is None or not (report.orders or report.outside),
        found=report.differences() if report is not None else "",
    )
    print(f"recording {os.fspath(path)}: {line}", file=sys.stderr)


def _affords_field_hashes(simulation: Any, adapter: Adapter) -> bool:
    """Return True if per-field hashes cost little next to the rest of a recorded step."""
    state = getattr(simulation, "state", None)  # One with save and load has none before it is wrapped.
    few = not isinstance(state, State) or len(state.layout.slots) <= FIELDS_HASHED_MAX
    return few and not adapter.has_short_steps


def _ensure_in_order(subject: object, path: object) -> None:
    """Raise TypeError for arguments of record that are swapped, or for a path of another type."""
    order = "expected record(object, path)"
    if isinstance(subject, str | os.PathLike) and not isinstance(path, str | os.PathLike):
        raise TypeError(f"{order}, got the path {os.fspath(subject)!r} first: swap the two arguments")
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{order}, got {type(path).__name__} in place of the path of a new tape")


def tape_of(recorded: object) -> Recorder:
    """The recorder of an object that ``record`` returned; a context manager that seals the tape at its end.

    Raises TypeError for any other object.
    """
    tape = getattr(recorded, "tape", None)
    if not isinstance(tape, Recorder):
        raise TypeError(f"expected an object that recorder.record() returned, got {type(recorded).__name__}")
    return tape


def object_of(tape: Recorder) -> Any:
    """The object to use in place of the recorded one, as ``record`` returned it; for the recorder of ``resume``.

    Raises TypeError for a recorder of anything else than a Python object or an environment.
    """
    inner = inner_of(tape.simulation)
    adapted = hook(inner, HasAdapter)
    if adapted is None:
        raise TypeError(
            f"expected the recorder of a Python object or an environment, got one of "
            f"{type(subject_of(tape.simulation)).__name__}: continue with the recorder's step(inputs)"
        )
    is_plain = adapted.adapter["name"] == PLAIN_OBJECT.name
    return (PLAIN_OBJECT if is_plain else adapter_of(subject_of(tape.simulation), None)).door(inner, tape)


class ObjectRecorder(Recorder):
    """The recorder of an object that the user steps: it reports a recording without any step.

    Attributes:
        noted: what the first steps read, if they were watched only after META was written.
    """

    noted: NotedReads | None = None

    def close(self, outcome: Any = None) -> None:
        """Close the tape, and warn if it has no step."""
        is_first, failed = not self.is_closed, self._failed_tick is not None
        super().close(outcome)
        was_raised = isinstance(outcome, dict) and outcome.get("reason") == "exception"
        if is_first and not (self.tick or failed or was_raised):
            warn_user(
                f"the recording {os.fspath(self.path)} saw no step: use the object that record() returned in place of "
                "the original, and name the method that makes a step",
                RecordingWarning,
            )

    def _outcome(self, otherwise: dict[str, Any]) -> dict[str, Any]:
        end = super()._outcome(otherwise)
        is_noted = self.noted is not None and not self._settings.deterministic
        return {**end, KEY: reads_note(self.noted)} if is_noted else end


class TriedRecorder(ObjectRecorder):
    """The recorder of an object until its first steps were tried; then it becomes an ObjectRecorder, which costs less.

    Attributes:
        later: the trial.
    """

    later: LaterTrial

    def step(self, inputs: Any = None) -> Any:
        """See Recorder.step. The first steps are tried after the last of them, and before one that raises."""
        tick = self.tick
        try:
            result = super().step(inputs)
        except Exception:
            if self.tick > tick and not self.later.begin_again():
                self._try()
            raise
        self.later.add(inputs)
        if self.later.is_due:
            self._try()
        return result

    def _try(self) -> None:
        self.__class__ = ObjectRecorder  # type: ignore[assignment]
        report = self.later.run()
        self.noted = report.reads if report is not None else None

    def close(self, outcome: Any = None) -> None:
        """Try the steps that there are, unless the run ended by an exception, and close the tape."""
        was_raised = isinstance(outcome, dict) and outcome.get("reason") == "exception"
        if not (self.is_closed or was_raised or self._failed_tick is not None):
            self._try()
        ObjectRecorder.close(self, outcome)  # Not by super(): it is not of this class any more once it has tried.
