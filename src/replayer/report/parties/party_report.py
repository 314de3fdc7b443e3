"""The explanation of two tapes as lines of text."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from typing import Any

import attrs

from recorder.text import counted, shown_path
from replayer.desync.dump.dump import difference_lines
from replayer.desync.object_diff import object_difference_lines, shown_fields
from replayer.diagnose.compare.tape_diff import TapeDifference
from replayer.diagnose.explain.cause import Cause
from replayer.diagnose.explain.variant_choice import SEED
from replayer.diagnose.parties.party import SET_HERE, Party
from replayer.diagnose.parties.party_explanation import PartyExplanation
from replayer.diagnose.parties.told.tape_seeds import TriedSeeds
from replayer.diagnose.parties.told.told_environment import ToldVariable
from replayer.diagnose.parties.told.unnoted_reads import FoundVariable
from replayer.report.cause_text import cause_text
from replayer.report.parties.factor_text import changed_lines, factor_text, test_text

LABELS = ("A", "B")
_FIELDS_SHOWN = 6
_ROWS_SHOWN = 3  # Lines of a field: its name, and two rows.
_SEED_TEXT = "the hash seed of the process, on which hash() of texts and the order of sets of texts depend"


@attrs.frozen
class CauseTexts:
    """How the command prints the line at which two steps diverge.

    Attributes:
        lines: for people; the first one says what kind of line it is, and is replaced.
        facts: for programs.
    """

    lines: Callable[[Cause], list[str]]
    facts: Callable[[Cause], dict[str, Any]]


def first_party_line(difference: TapeDifference, parties: Sequence[Party]) -> str:
    """The line that names the first different tick; there is one."""
    both = " and ".join(str(party.tape) for party in parties)
    ticks = f"{difference.first_tick:,} to {difference.last_tick:,}"
    return f"{both}: first different at tick {difference.first_bad:,} of {ticks}"


def party_lines(explanation: PartyExplanation, texts: CauseTexts) -> list[str]:
    """The explanation for people."""
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
            f"  inputs: differ first at tick {difference.inputs_tick:,}{_key_order_text(explanation)}, without an effect on any state",
            *_unread(explanation),
        ]
    lines = [
        first_party_line(difference, explanation.parties),
        *_field_lines(explanation),
        *_inputs_lines(explanation),
        *_unread(explanation),
        "",
        *_verdict_lines(explanation),
    ]
    if explanation.cause is not None:
        lines += [
            "",
            f"line: {_kind_text(explanation.cause, is_known=bool(explanation.deciding or explanation.variable))}",
            *texts.lines(explanation.cause)[1:],
        ]
    if explanation.tests:
        lines += ["", f"tested at tick {explanation.tick:,}:"]
        lines += [f"  {test_text(test)}" for test in explanation.tests]
    lines += ["", "parties:"]
    lines += [f"  {_party_text(explanation, number)}" for number in (0, 1)]
    notes = [*(one.text for one in explanation.told if one not in _unknown(explanation)), *explanation.notes]
    return [*lines, *(f"note: {note}" for note in notes), *_exchange_lines(explanation)]


def _unknown(explanation: PartyExplanation) -> list[ToldVariable]:
    """The variables whose recorded values are not known, where that may be why both parties give one state."""
    return (
        [] if explanation.is_reproduced or explanation.deciding else [one for one in explanation.told if not one.values]
    )


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
    lines = [*values, *shown, *([f"and {counted(more, 'more field')}"] if more > 0 else [])]
    unlike = [
        f"tape {LABELS[number]}"
        for number, state in enumerate(explanation.states or ())
        if explanation.recorded is not None and state.hash() != explanation.recorded[number]
    ]
    if _is_exchanged(explanation):
        lines.insert(
            0, "as the simulations give it: that of A gives the state of tape B, and that of B the state of tape A:"
        )
    elif unlike:
        lines.insert(0, f"as the simulations give it, which is not the state of {' or '.join(unlike)}:")
    return [f"  {line}" for line in lines]


def _is_exchanged(explanation: PartyExplanation) -> bool:
    """Return True if each party gives what the tape of the other one has."""
    first, second = explanation.runs
    if first is None or second is None or explanation.recorded is None:
        return False
    given, recorded = (first.state_hash, second.state_hash), explanation.recorded
    return given == (recorded[1], recorded[0]) and recorded[0] != recorded[1]


def _exchange_lines(explanation: PartyExplanation) -> list[str]:
    """The command with the two tapes exchanged."""
    if not _is_exchanged(explanation):
        return []
    first, second = explanation.parties
    words = ["replay", "explain", str(second.tape), str(first.tape), *first.words, *second.words]
    return [f"next: {shlex.join(words)}  # the same simulations with the tapes exchanged"]


def _key_order_text(explanation: PartyExplanation) -> str:
    return " in the order of the keys of a dict alone" if explanation.difference.is_key_order else ""


def _inputs_lines(explanation: PartyExplanation) -> list[str]:
    inputs_tick, tick = explanation.difference.inputs_tick, explanation.tick
    assert tick is not None
    if inputs_tick is None or inputs_tick > tick:
        return [f"  inputs: the same up to tick {tick:,}"]
    keys = _key_order_text(explanation)
    if inputs_tick == tick:
        return [f"  inputs: differ first at this tick{keys}"]
    return [f"  inputs: differ first at tick {inputs_tick:,}{keys}, while the states stayed the same"]


def _verdict_lines(explanation: PartyExplanation) -> list[str]:
    if explanation.seeds is not None:
        return _seed_lines(explanation, explanation.seeds)
    if explanation.variable is not None:
        return _variable_lines(explanation, explanation.variable)
    if explanation.unsteady:
        named = " and ".join(LABELS[number] for number in explanation.unsteady)
        return [
            f"cause: the step is not deterministic: the simulation of {named}, run again in another process with nothing",
            "  changed, gives another state; what the parties differ in cannot be tested against that",
        ]
    deciding = explanation.deciding
    if deciding:
        lines = [f"cause: {factor_text(deciding[0].factor)}"]
        lines += [f"  and, alone as well: {factor_text(test.factor)}" for test in deciding[1:]]
        first, second = (_same_text(explanation, number) for number in (1, 0))
        lines.append(f"  A with what B has there {first}, and B with what A has {second}")
        return [*lines, *(line for test in deciding for line in changed_lines(explanation, test))]
    return [f"the cause is not known: {_unknown_text(explanation)}", *_next_lines(explanation)]


def _same_text(explanation: PartyExplanation, number: int) -> str:
    """That the other party gives what this one gives."""
    run, label = explanation.runs[number], LABELS[number]
    return f"gives what {label} gives" if run is None or run.raised is None else f"raises what {label} raises"


def _seed_lines(explanation: PartyExplanation, seeds: TriedSeeds) -> list[str]:
    """What the step gives with the hash seeds that were tried in party A; both parties give one state with their own."""
    first, second = (f"{SEED}={seed}" for seed in seeds.of_tapes)
    own = [LABELS[number] for number in (0, 1) if explanation.is_recorded(number)]
    if seeds.decides:
        return [
            f"cause: {_SEED_TEXT}:",
            f"  the simulation of A gives with {first} the state of tape A, and with {second} that of tape B",
        ]
    missing = [label for label, seed in zip(LABELS, seeds.of_tapes, strict=True) if seed is None]
    given = [label for label in LABELS if label not in missing and label not in own]
    # The first seed that made a difference need not be the one that gives a tape's state.
    seed = seeds.of_tapes[LABELS.index(given[0])] if given else seeds.first
    other = f"that of tape {given[0]}" if given else "a state that is on neither tape"
    present = f"that of tape {own[0]}" if own else "another one, which is on neither tape"
    tapes = " or ".join(f"tape {label}" for label in missing)
    return [
        f"possible cause: {_SEED_TEXT}:",
        f"  the simulation of A gives with {SEED}={seed} {other}, and with {seeds.own} {present}",
        f"  none of the {counted(seeds.count, 'seed')} that were tried gives the state of {tapes}",
    ]


def _variable_lines(explanation: PartyExplanation, found: FoundVariable) -> list[str]:
    label, other = LABELS[found.party], LABELS[1 - found.party]
    setting = f"{found.name}={found.value}" if found.value is not None else f"{found.name} not set"
    values = {None: "it not set", SET_HERE: "the value that it has here"}
    now = values.get(found.present, f"{found.name}={found.present}")
    state = f"that of tape {other}" if explanation.is_recorded(1 - found.party) else "another state"
    told = "" if found.is_noted else f"; tape {label} does not tell the value that it had"
    chosen = f", and {found.place.rpartition(':')[0]} names this one" if told and found.value is not None else ""
    gives = f"with {setting} the simulation of {label} gives the state of tape {label}, with {now} {state}"
    runs = f"(in {found.times} of {found.times} processes each)"
    return [
        f"cause: the environment variable {found.name}, read at {found.place}:",
        f"  {gives} {runs}{told}{chosen}",
    ]


def _next_lines(explanation: PartyExplanation) -> list[str]:
    """The command for a tape that its party's simulation does not repeat."""
    wrong = [
        party
        for number, party in enumerate(explanation.parties)
        if explanation.runs[number] is not None and not explanation.is_recorded(number)
    ]
    if explanation.is_first_tick or explanation.is_reproduced or len(wrong) != 1 or wrong[0].work_tree is not None:
        return []
    unknown = [f"--env {one.name}=VALUE" for one in _unknown(explanation) if one.party == 1]
    if unknown and wrong[0] is explanation.parties[1]:
        first, second = explanation.parties
        words = shlex.join(["replay", "explain", str(first.tape), str(second.tape), *first.words, *second.words])
        return [f"next: {words} {' '.join(unknown)}  # with the values that tape B was recorded with"]
    sim = f" --sim {wrong[0].sim}" if wrong[0].sim is not None else ""
    return [f"next: replay explain {wrong[0].tape} --tick {explanation.tick}{sim}"]


def _unknown_text(explanation: PartyExplanation) -> str:
    if explanation.why_older is not None:
        return explanation.why_older
    if explanation.varying is not None:
        return f"the step is not deterministic: {explanation.varying} gives different states in different processes"
    if any(run is None for run in explanation.runs):
        return "the step was not run by both parties (see the notes); name the simulation with --sim and --other-sim"
    if explanation.is_reproduced:
        if explanation.tests:
            return _undecided_text(explanation)
        return (
            f"{_unlike_text(explanation)}; in what was compared (inputs, arguments of the constructor, modules that both "
            "load, files that Python code of both opens, given environment variables) no difference was found"
        )
    gives = [LABELS[number] for number in (0, 1) if explanation.is_recorded(number)]
    named = f"that of tape {gives[0]}" if gives else "which is on neither tape"
    unnoted = f"; the step reads {explanation.unnoted}" if explanation.unnoted else ""
    unnoted += f"; before the step are read {explanation.unnoted_before}" if explanation.unnoted_before else ""
    unnoted += "".join(f"; {one.text}" for one in _unknown(explanation))
    return (
        f"both parties give one state, {named}; none of what was given for them (--other-sim, --other-path, "
        f"--other-commit, --other-python, --env) makes this step differ{unnoted}{_read_text(explanation)}"
    )


def _undecided_text(explanation: PartyExplanation) -> str:
    """The sentence on differences none of which was seen to decide; those that could not be exchanged are not judged.

    Several together, and a package as a whole, are no further differences than those that they consist of.
    """
    tests = [test for test in explanation.tests if not test.factor.parts and test.factor.kind != "package"]
    failed = sum(test.why_not is not None for test in tests)
    text = _unlike_text(explanation)
    if failed == len(tests):
        alone = " alone" if len(tests) < len(explanation.tests) else ""
        return f"{text}, and none of their differences could be tested{alone}"
    if failed:
        return (
            f"{text}; of their differences, none that could be tested decides alone about that, and {failed} could not"
        )
    return f"{text}, and none of their differences decides alone about that"


def _unlike_text(explanation: PartyExplanation) -> str:
    """How the results of the parties differ: an error is no state."""
    raised = [run is not None and run.raised is not None for run in explanation.runs]
    return f"the two parties give different {'results' if any(raised) else 'states'}"


def _read_text(explanation: PartyExplanation) -> str:
    """The files that were read up to the end of the step: of each there is one content here, and the parties may have had two."""
    files = {
        path: run.made.files[path]
        for run in explanation.runs
        if run is not None and run.made
        for path in run.made.files
    }
    if not files:
        return ""
    named = ", ".join(f"{shown_path(path)} (read at {place})" for path, place in list(files.items())[:_FIELDS_SHOWN])
    return f"; up to its end the simulation reads {named}, of which each party may have had its own: not compared"


def _kind_text(cause: Cause, *, is_known: bool) -> str:
    """What is said of the line. is_known: True if what the parties differ in is named as the cause."""
    match cause.kind:
        case "operation":
            return f"{cause.operation} gives different results from the same inputs"
        case "edited" if cause.other_place is not None:
            return "the two versions of the code differ here"
        case "outside" | "version":
            return "this line reads a value that is not in the state, and that differed before it ran"
        case "unseen" if is_known:
            return "after this line a value differs; not all that lines read and change was seen"
    return cause_text(cause)


def _party_text(explanation: PartyExplanation, number: int) -> str:
    party, run = explanation.parties[number], explanation.runs[number]
    given = [f"--sim {party.sim}"] if party.sim is not None else []
    given += [shown_path(path) for path in party.paths]
    given += [f"commit {party.work_tree.commit}"] if party.work_tree is not None else []
    given += [party.python] if party.python != sys.executable else []
    given += [f"{name}={value}" if value is not None else f"{name} unset" for name, value in party.environment.items()]
    text = ", ".join([f"{LABELS[number]}  {party.tape}", *given])
    if run is None:
        return f"{text}: not run"
    if run.state_hash is None:
        return f"{text}: {run.raised}"
    since = f", on an instance that ran from tick {run.start:,}" if run.start is not None else ""
    recorded = ", as recorded" if explanation.is_recorded(number) else ", not as recorded"
    return f"{text}: hash {run.state_hash:016x}{recorded}{since}"
