"""``replay explain`` with two tapes: where they diverge, and which difference between the two parties does it."""

from __future__ import annotations

import difflib
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import attrs
from cyclopts import Parameter

from recorder.console.output import print_json
from recorder.console.progress import progress_bar
from recorder.environment import describe_environment
from recorder.exit_codes import DIFFERS, SAME, UsageError
from recorder.storage.os_errors import reading
from recorder.text import counted, shown_path
from replayer.commands.arguments import ensure_states
from replayer.desync.dump.dump import difference_lines
from replayer.desync.object_diff import object_difference_lines, shown_fields
from replayer.diagnose.bisect.commit_run import place_in_tree
from replayer.diagnose.bisect.repository import Repository, RepositoryError
from replayer.diagnose.explain.cause import Cause
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.parties.party import Party, WorkTree
from replayer.diagnose.parties.two_tapes import (
    FactorTest,
    NotComparableError,
    PartyExplanation,
    explain_parties,
    recorded_environment,
)
from replayer.status import worst_code
from replayer.tape.completeness import tape_code
from replayer.tape.tape import Tape
from replayer.value_text import plain_text

LABELS = ("A", "B")
_FIELDS_SHOWN = 6
_ROWS_SHOWN = 3  # Lines of a field: its name, and two rows.
_CHANGED_SHOWN = 8


@attrs.frozen
class OtherParty:
    """What the second of two tapes was recorded with.

    Attributes:
        sim: module:factory of the second tape's simulation; by default that of --sim.
        path: A folder in front of the second one's module path: its code or a package; may be given several times.
        commit: A commit of the repository of the current folder: the second one's code.
        python: The second one's interpreter, in whose environment this package is installed.
    """

    sim: Annotated[str | None, Parameter(name="--other-sim")] = None
    path: Annotated[list[str] | None, Parameter(name="--other-path", negative="")] = None
    commit: Annotated[str | None, Parameter(name="--other-commit")] = None
    python: Annotated[str | None, Parameter(name="--other-python")] = None


@attrs.frozen
class CauseTexts:
    """How the command prints the line at which two steps diverge.

    Attributes:
        lines: for people; the first one says what kind of line it is, and is replaced.
        facts: for programs.
    """

    lines: Callable[[Cause], list[str]]
    facts: Callable[[Cause], dict[str, Any]]


def ensure_two(other_tape: Path | None, *, only_of_one: bool) -> None:
    """Raise UsageError for options of two tapes with one, and the reverse."""
    if other_tape is None:
        raise UsageError("--other-sim, --other-path, --other-commit and --other-python need a second tape")
    if only_of_one:
        raise UsageError("--tick and --code are for one tape; --other-path names the code of a second one")


def explain_two(
    paths: tuple[Path, Path],
    sim: str | None,
    other: OtherParty,
    environment: Mapping[str, str | None],
    texts: CauseTexts,
    *,
    as_json: bool,
) -> int:
    """Explain two tapes and print the result; returns the exit code. environment: variables of the second party."""
    codes = []
    recorded = []
    for path in paths:
        with reading(path), Tape(path) as tape:
            ensure_states(tape)
            codes.append(tape_code(tape))
            recorded.append(recorded_environment(tape.meta, describe_environment()))
    for folder in other.path or ():
        if not Path(folder).is_dir():
            raise UsageError(f"expected a folder, got --other-path {folder}")
    first = Party("A", paths[0], paths[0], sim, environment=recorded[0])
    with (
        _party(paths[1], sim, other, {**recorded[1], **environment}) as second,
        progress_bar("comparing", 100, quiet=as_json) as show,
        reading(paths[0]),
        redirect_stdout(sys.stderr),
    ):
        try:
            explanation = explain_parties(first, second, lambda fraction: show(round(100 * fraction)))
        except NotComparableError as error:
            raise UsageError(f"{paths[0]}, {paths[1]}: {error}") from None
        _ensure_used(explanation, other)
        lines = _lines(explanation, texts)  # Here: they read the sources of a commit's work tree.
    if as_json:
        print_json(_facts(explanation, texts))
    else:
        print("\n".join(map(plain_text, lines)))
    differs = explanation.tick is not None or explanation.difference.inputs_tick is not None
    return worst_code([*codes, DIFFERS if differs else SAME])


@contextmanager
def _party(path: Path, sim: str | None, other: OtherParty, environment: Mapping[str, str | None]) -> Iterator[Party]:
    """The second party; a commit is checked out as long as the context is open."""
    python = other.python if other.python is not None else sys.executable
    folders = tuple(str(Path(folder).absolute()) for folder in other.path or ())
    party = Party("B", path, path, other.sim or sim, folders, None, python, environment)
    if other.commit is None:
        yield party
        return
    try:
        repository = Repository(Path())
        with (
            tempfile.TemporaryDirectory(prefix="replay-explain-") as folder,
            repository.work_tree(repository.commit(other.commit), Path(folder).resolve()) as tree,
        ):
            place = place_in_tree(repository, tree, (), party.sim)
            work_tree = WorkTree(repository.root, tree, place.folder, place.folders, place.module_path)
            yield attrs.evolve(party, work_tree=work_tree)
    except RepositoryError as error:
        raise UsageError(f"--other-commit {other.commit}: {error}") from None


def _ensure_used(explanation: PartyExplanation, other: OtherParty) -> None:
    """Raise UsageError if no module of the second party comes from what was named for it."""
    run, party = explanation.runs[1], explanation.parties[1]
    if run is None or run.made is None:
        return
    files = [Path(file).resolve() for file in run.made.modules.values()]
    for folder in party.paths:
        if not any(file.is_relative_to(Path(folder).resolve()) for file in files):
            raise UsageError(f"no module of the simulation is imported from --other-path {shown_path(folder)}")
    tree = party.work_tree
    if tree is not None and not any(file.is_relative_to(tree.tree) for file in files):
        raise UsageError(
            f"no module of the simulation is imported from --other-commit {other.commit}: is an installed copy used?"
        )


# --- for people


def _lines(explanation: PartyExplanation, texts: CauseTexts) -> list[str]:
    difference = explanation.difference
    both = " and ".join(str(party.tape) for party in explanation.parties)
    compared = (
        f"{counted(difference.compared_ticks, 'tick')} from {difference.first_tick:,} to {difference.last_tick:,}"
    )
    if explanation.tick is None:
        if difference.inputs_tick is None:
            return [f"{both}: {compared}, the same: there is nothing to explain", *_unread(explanation)]
        return [
            f"{both}: {compared}, with the same states: there is nothing to explain",
            f"  inputs: differ first at tick {difference.inputs_tick:,}, without an effect on any state",
            *_unread(explanation),
        ]
    lines = [
        f"{both}: first different at tick {explanation.tick:,} of {difference.first_tick:,} to {difference.last_tick:,}",
        *_field_lines(explanation),
        *_inputs_lines(explanation),
        *_unread(explanation),
        "",
        *_verdict_lines(explanation),
    ]
    if explanation.cause is not None:
        lines += ["", f"line: {_kind_text(explanation.cause)}", *texts.lines(explanation.cause)[1:]]
    if explanation.tests:
        lines += ["", f"tested at tick {explanation.tick:,}, each alone:"]
        lines += [f"  {_test_text(test)}" for test in explanation.tests]
    lines += ["", "parties:"]
    lines += [f"  {_party_text(explanation, number)}" for number in (0, 1)]
    return [*lines, *(f"note: {note}" for note in explanation.notes)]


def _unread(explanation: PartyExplanation) -> list[str]:
    count = explanation.difference.unreadable_ticks
    return [f"  not compared: {counted(count, 'tick')} that one of them lacks"] if count else []


def _field_lines(explanation: PartyExplanation) -> list[str]:
    names = [difference.field for difference in explanation.fields]
    if not names:
        known = explanation.difference.ticks[0].fields
        return [f"  fields: {', '.join(shown_fields(known))}"] if known else []
    values, rest = object_difference_lines(explanation.states, names, LABELS)
    fields = [one for one in explanation.fields if one.field in rest]
    shown = [line for one in fields[:_FIELDS_SHOWN] for line in difference_lines(one, LABELS)[:_ROWS_SHOWN]]
    more = len(fields) - _FIELDS_SHOWN
    return [f"  {line}" for line in [*values, *shown, *([f"and {counted(more, 'more field')}"] if more > 0 else [])]]


def _inputs_lines(explanation: PartyExplanation) -> list[str]:
    inputs_tick, tick = explanation.difference.inputs_tick, explanation.tick
    assert tick is not None
    if inputs_tick is None or inputs_tick > tick:
        return [f"  inputs: the same up to tick {tick:,}"]
    if inputs_tick == tick:
        return ["  inputs: differ first at this tick"]
    return [f"  inputs: differ first at tick {inputs_tick:,}, while the states stayed the same"]


def _verdict_lines(explanation: PartyExplanation) -> list[str]:
    if explanation.seed is not None:
        return [
            f"cause: the hash seed of the process: with PYTHONHASHSEED={explanation.seed} the simulation of A gives another",
            "  state than without a change; the tapes do not state the seeds that they were recorded with",
        ]
    if explanation.unsteady:
        named = " and ".join(LABELS[number] for number in explanation.unsteady)
        return [
            f"cause: the step is not deterministic: the simulation of {named}, run again in another process with nothing",
            "  changed, gives another state; what the parties differ in cannot be tested against that",
        ]
    deciding = explanation.deciding
    if deciding:
        lines = [f"cause: {_factor_text(deciding[0])}"]
        lines += [f"  and, alone as well: {_factor_text(test)}" for test in deciding[1:]]
        lines.append("  A with what B has there gives what B gives, and B with what A has gives what A gives")
        return [*lines, *(line for test in deciding for line in _changed_lines(explanation, test))]
    return ["the cause is not known: " + _unknown_text(explanation)]


def _unknown_text(explanation: PartyExplanation) -> str:
    if any(run is None for run in explanation.runs):
        return "the step was not run by both parties (see the notes); name the simulation with --sim and --other-sim"
    if explanation.is_reproduced:
        if explanation.tests:
            return "the two parties give different states, and none of their differences decides alone about that"
        return "the two parties give different states, and no difference between them was found"
    gives = [LABELS[number] for number in (0, 1) if explanation.is_recorded(number)]
    named = f"that of tape {gives[0]}" if gives else "which is on neither tape"
    return (
        f"both parties give one state, {named}; what made the tapes differ is not among what was given for them "
        "(--other-sim, --other-path, --other-commit, --other-python, --env)"
    )


def _factor_text(test: FactorTest) -> str:
    factor = test.factor
    first, second = factor.texts
    names = {
        "inputs": f"the inputs of {factor.name}",
        "argument": f"the constructor's argument {factor.name}",
        "configuration": f"the configuration's entry {factor.name}",
        "module": f"the module {factor.name}",
        "factory": "the simulation",
        "variable": f"the environment variable {factor.name}",
    }
    return f"{names.get(factor.kind, factor.name)}: {first} in A, {second} in B"


def _test_text(test: FactorTest) -> str:
    if test.why_not is not None:
        return f"? {_factor_text(test)}: not tested: {test.why_not}"
    gives = {"A": "what A gives", "B": "what B gives", "other": "a third state"}
    first, second = (gives[one or "other"] for one in test.outcomes)
    if test.outcomes == ("A", "B"):
        return f"- {_factor_text(test)}: exchanged, it changes nothing"
    return f"{'+' if test.decides else '?'} {_factor_text(test)}: A with it gives {first}, B with that of A {second}"


def _changed_lines(explanation: PartyExplanation, test: FactorTest) -> list[str]:
    """The lines that differ between the files of a module, unless the cause has named one of them."""
    if not test.factor.files or (explanation.cause is not None and explanation.cause.kind == "edited"):
        return []
    lines = []
    for pair in test.factor.files:
        old, new = (SourceFile(path).lines for path in pair)
        changed = [line for line in difflib.unified_diff(old, new, n=0, lineterm="") if line[:3] not in ("---", "+++")]
        lines += [f"    {line.rstrip()}" for line in changed if not line.startswith("@@")]
    more = len(lines) - _CHANGED_SHOWN
    return [*lines[:_CHANGED_SHOWN], *([f"    and {counted(more, 'more line')}"] if more > 0 else [])]


def _kind_text(cause: Cause) -> str:
    match cause.kind:
        case "operation":
            return f"{cause.operation} gives different results from the same inputs"
        case "edited":
            return "the two versions of the code differ here"
        case "outside":
            return "this line reads a value outside the state, which differed before the step"
        case "branch":
            return "the two take different branches after this line"
    called = f", calling {', '.join(cause.calls)}" if cause.calls else ""
    return f"the first one that gives different values{called}"


def _party_text(explanation: PartyExplanation, number: int) -> str:
    party, run = explanation.parties[number], explanation.runs[number]
    given = [f"--sim {party.sim}"] if party.sim is not None else []
    given += [shown_path(path) for path in party.paths]
    given += ["a commit"] if party.work_tree is not None else []
    given += [party.python] if party.python != sys.executable else []
    given += [f"{name}={value}" if value is not None else f"{name} unset" for name, value in party.environment.items()]
    text = f"{LABELS[number]}  {party.tape}{f', {chr(44).join(given)}' if given else ''}"
    if run is None:
        return f"{text}: not run"
    if run.state_hash is None:
        return f"{text}: {run.raised}"
    since = f", on an instance that ran from tick {run.start:,}" if run.start is not None else ""
    recorded = ", as recorded" if explanation.is_recorded(number) else ", not as recorded"
    return f"{text}: hash {run.state_hash:016x}{recorded}{since}"


# --- for programs


def _facts(explanation: PartyExplanation, texts: CauseTexts) -> dict[str, Any]:
    difference = explanation.difference
    return {
        "tapes": [str(party.tape) for party in explanation.parties],
        "same": difference.same,
        "tick": explanation.tick,
        "first_tick": difference.first_tick,
        "last_tick": difference.last_tick,
        "compared_ticks": difference.compared_ticks,
        "unreadable_ticks": difference.unreadable_ticks,
        "inputs_tick": difference.inputs_tick,
        "fields": shown_fields([one.field for one in explanation.fields] or difference.ticks[0].fields or ())
        if difference.ticks
        else [],
        "reproduced": explanation.is_reproduced,
        "causes": [_test_facts(test) for test in explanation.deciding],
        "not_deterministic": [LABELS[number] for number in explanation.unsteady],
        "hash_seed": explanation.seed,
        "line": texts.facts(explanation.cause) if explanation.cause is not None else None,
        "tested": [_test_facts(test) for test in explanation.tests],
        "parties": [_party_facts(explanation, number) for number in (0, 1)],
        "notes": list(explanation.notes),
    }


def _test_facts(test: FactorTest) -> dict[str, Any]:
    return {
        "kind": test.factor.kind,
        "name": test.factor.name,
        "first": test.factor.texts[0],
        "second": test.factor.texts[1],
        "files": [list(pair) for pair in test.factor.files],
        "first_with_second": test.outcomes[0],
        "second_with_first": test.outcomes[1],
        "decides": test.decides,
        "why_not": test.why_not,
    }


def _party_facts(explanation: PartyExplanation, number: int) -> dict[str, Any]:
    run = explanation.runs[number]
    return {
        "tape": str(explanation.parties[number].tape),
        "sim": explanation.parties[number].sim,
        "recorded_hash": f"{explanation.recorded[number]:016x}" if explanation.recorded is not None else None,
        "hash": f"{run.state_hash:016x}" if run is not None and run.state_hash is not None else None,
        "as_recorded": explanation.is_recorded(number),
        "raised": run.raised if run is not None else None,
        "from_tick": run.start if run is not None else None,
        "class": run.made.class_name if run is not None and run.made is not None else None,
        "arguments": run.made.arguments if run is not None and run.made is not None else {},
        "python": run.made.python if run is not None and run.made is not None else None,
    }
