"""Begin the tape of a branch: a simulation in the parent's state of a tick, and a recorder that counts on from there."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from recorder.errors import RecordingError, SimulationFailedError
from recorder.exception_text import raised_text
from recorder.recording_options import OptionArguments, RecordingOptions
from recorder.reopen.branch_recorder import BranchRecorder
from recorder.reopen.preconditions import settings_of
from recorder.session.tape_meta import describe, encode_small, new_run_id
from recorder.storage.tape_copy import TAKEN, TapeCopy
from replayer.branches.parent_run import KEY, describe_parent
from replayer.playback.make_simulation import Factory, UnfitSimulationError, make_stepping
from replayer.tape.copied_range import UnfitTapeError, copy_range, ensure_whole
from replayer.tape.tape import Tape
from sim.kernel.exactness import Level
from sim.kernel.hooks import marks_its_writes
from sim.kernel.registry import ConfigError, find_world
from sim.kernel.same_fields import ensure_same_fields
from sim.kernel.simulation import Simulation, capture, inner_of, restore, subject_of
from sim.kernel.state import Snapshot

Edit = Callable[[Any], object]  # Of the recorded object, in the state of the fork.


@attrs.frozen(kw_only=True)
class BranchPlan:
    """How a branch differs from its parent before its first step, and how it is recorded.

    Attributes:
        world: makes the simulation; None makes the parent's.
        config: parameters of a registered world that replace those of the parent, by name; tables are merged.
        edit: called with the recorded object, in the state of the fork, to change it.
        standalone: hold the parent's ticks up to the fork, too.
        options: of the recording; by default the parent's, without a ring and a split.
    """

    world: Factory | None = None
    config: Mapping[str, Any] | None = None
    edit: Edit | None = None
    standalone: bool = False
    options: OptionArguments = attrs.field(factory=OptionArguments)


def begin_branch(
    tape: Tape, tick: int, state: Snapshot, path: str | os.PathLike[str], plan: BranchPlan
) -> BranchRecorder:
    """Begin the tape of a branch that leaves the run of a tape at tick, where it has this state.

    Raises UnfitTapeError if the run cannot be left there, or the arguments contradict each other, FileExistsError if path
    exists, UnfitSimulationError and others as make_stepping does, ConfigError, SimulationFailedError if the simulation or
    the edit raises, and as Recorder does. Nothing is written then.
    """
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, TAKEN, os.fspath(path))
    _ensure_can_be_left(tape, tick)
    if plan.standalone and (plan.config or plan.edit):
        raise UnfitTapeError(
            "a stand-alone tape has one simulation: its first ticks are those of the parent's parameters"
        )
    if plan.standalone and not plan.options.keys().isdisjoint(("mode", "hashes")):
        raise UnfitTapeError("a stand-alone tape has the parent's mode and hashes: its first ticks are a copy")
    simulation = _make(tape, plan)
    _restore(simulation, tick, state)
    if plan.edit is not None:
        _edit(simulation, tick, plan.edit)
    options = _options(tape, plan.options)
    facts = {KEY: describe_parent(tape, tick, state.hash(), path).to_meta()}
    if plan.standalone and tick > tape.first_tick:
        branch = _continue_copy(tape, tick, Path(path), simulation, options, facts)
    else:
        branch = BranchRecorder.from_state(path, simulation, tick, options, facts)
    branch.parent_tape, branch.parent_last = os.fspath(tape.path), tape.last_tick
    branch.parent_inputs = lambda tick: tape.frame(tick).inputs
    return branch


def _ensure_can_be_left(tape: Tape, tick: int) -> None:
    if tape.meta.get("level") == Level.CANONICAL.value and tape.keyframe_at(tick) is None:
        near = next(tape.keyframes_at_or_before(tick), None)
        hint = f", such as {near.tick:,}" if near is not None else ""
        raise UnfitTapeError(f"the run loaded its state at each keyframe: it can only be left at one{hint}")


def _make(tape: Tape, plan: BranchPlan) -> Simulation:
    if plan.config is None:
        return make_stepping(tape, plan.world)
    match tape.meta.get("world"):
        case {"name": str(name), "config": dict(config)}:
            if plan.world is not None:
                raise UnfitTapeError(
                    "config replaces parameters of the registered world: it cannot be given with world"
                )
            found = find_world(name)
            merged = _merged(config, plan.config, "", found.parameters)
            return make_stepping(tape, lambda: found.make(merged))
    raise UnfitTapeError("the tape names no registered world, whose parameters could be replaced: use edit, or world")


def _merged(
    config: Mapping[str, Any], changes: Mapping[str, Any], path: str, known: Sequence[str] = ()
) -> dict[str, Any]:
    """A configuration with some of its values replaced. Raises ConfigError for a key that it does not have.

    known: keys that it may leave out.
    """
    merged = dict(config)
    for key, value in changes.items():
        if key not in merged and key not in known:
            names = dict.fromkeys([*merged, *known])
            raise ConfigError(f"{path}{key}", f"expected a parameter of the run: {', '.join(map(str, names))}")
        is_table = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merged(merged[key], value, f"{path}{key}.") if is_table else value
    return merged


def _restore(simulation: Simulation, tick: int, state: Snapshot) -> None:
    try:
        ensure_same_fields(state.layout, simulation)
    except TypeError as error:
        raise UnfitSimulationError(str(error)) from None
    try:
        restore(simulation, state)
    except Exception as error:
        raise SimulationFailedError(tick, raised_text("the load", error)) from error
    if simulation.state.hash() != state.hash():
        raise UnfitSimulationError("the simulation changes the state when it is restored")


def _edit(simulation: Simulation, tick: int, edit: Edit) -> None:
    try:
        edit(subject_of(simulation))
        capture(simulation)
    except RecordingError:
        raise
    except Exception as error:
        raise SimulationFailedError(tick, raised_text("the edit", error)) from error


def _options(tape: Tape, arguments: OptionArguments) -> RecordingOptions:
    try:
        base = settings_of(tape.assembled)
    except RecordingError:
        base = RecordingOptions()  # A tape of another version.
    if {"seek_budget_ms", "keyframe_after_ms", "deterministic"} & arguments.keys():
        base = attrs.evolve(base, seek_budget_ms=None, keyframe_after_ms=None)
    if {"seek_budget_ms", "keyframe_interval_ticks", "keep"} & arguments.keys():
        base = attrs.evolve(base, keyframe_interval_max_ticks=None)
    base = attrs.evolve(base, keep=None, split=None, deterministic=False, run_id=None, notes=None)
    RecordingOptions.of(arguments)  # Refuses unknown names, with the nearest ones.
    return attrs.evolve(base, **arguments)


def _continue_copy(
    tape: Tape, tick: int, path: Path, simulation: Simulation, options: RecordingOptions, facts: Mapping[str, Any]
) -> BranchRecorder:
    """Copy the parent's ticks up to the fork, and continue the copy."""
    first = tape.first_tick
    ensure_whole(tape, first, tick)
    settings = options.with_chosen_hashes(simulation.state.layout.size_bytes, marks=marks_its_writes(simulation))
    meta = encode_small({**describe(inner_of(simulation), simulation, settings), **facts}, "the description of the run")
    state = simulation.state.snapshot()
    with TapeCopy(path, options.run_id or new_run_id(meta, state, deterministic=options.deterministic), meta) as copy:
        copy_range(tape, copy, first, tick, keys_end=False)  # Continuing begins with a keyframe.
        copy.finish({"reason": "copied", "ticks": tick})
    try:
        return BranchRecorder.from_copy(path, simulation)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
