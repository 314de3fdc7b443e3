"""The test of hidden state in an explanation: the values of A are put into B, and the step runs once more."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import attrs

from replayer.diagnose.explain.align import Alignment
from replayer.diagnose.explain.answer.explanation import Explanation
from replayer.diagnose.explain.answer.split_objects import cause_at, line_that_split
from replayer.diagnose.explain.cause import Cause, DifferingValue, SourceLocation, is_save
from replayer.diagnose.explain.given.asked_identity import with_asked_identity
from replayer.diagnose.explain.source_lines import SourceFile
from replayer.diagnose.explain.trace_step import TracedStep
from replayer.diagnose.explain.values.given_values import GivenValue, GivenValues
from replayer.diagnose.explain.values.layouts import ORDERS
from replayer.diagnose.explain.values.loaded_lines import LoadedValue, line_that_left, lines_that_set
from replayer.diagnose.explain.variants import Variant
from sim.kernel.state import Snapshot

Test = Callable[[Variant, int, Snapshot, Sequence[int | None], Sequence[str]], GivenValues]
ALIAS = "alias"
_OF_INSTANCE = {ALIAS, "attribute", "random generator", "iterator", "weak reference"}
_TESTS = ("if ", "elif ", "while ", "return ", "assert ")  # Lines that change nothing themselves.
_TESTED = ("outside", "order", "version", "load", "inexact", "unseen", "line", "branch", "operation")


def with_given(explained: Explanation, before: Snapshot, test: Test) -> Explanation:
    """The explanation with what that test showed; the line that reads a proved value, if no line read it before.

    Of a value with two digests it is not known in what it differs, nor whether that is in the state: unless a test proved something,
    its line is not said to read hidden state. before: the state before the step. test: gives B, the variant, the values of A; see
    VariantRunner.give.
    """
    tested = with_asked_identity(_tested(explained, before, test))
    cause, given = tested.cause, tested.given
    if cause is None or not cause.outside or not _is_unseen(cause) or (given is not None and given.proved):
        return tested
    return attrs.evolve(tested, cause=attrs.evolve(cause, kind="unseen", outside=[]), given=None)


def _tested(explained: Explanation, before: Snapshot, test: Test) -> Explanation:
    cause, pair, tick = explained.cause, explained.pair, explained.tick
    if (
        pair is None
        or tick is None
        or (cause is not None and cause.kind not in _TESTED)
        or any(one.proved and one.name not in ORDERS for one in explained.settings)
    ):
        return explained
    first, second = (outcome.variant for outcome in pair)
    is_read = cause is not None and cause.reads_outside
    if attrs.evolve(first, label="", start=None) != attrs.evolve(second, label="", start=None):
        why = GivenValues(why_not="A and B are not instances of one environment and one version of the code")
        return attrs.evolve(explained, given=why) if is_read or (cause and cause.kind == "version") else explained
    given = test(second, tick, before, [first.start, second.start], _words(cause))
    if not given.proved and not is_read:
        return explained  # Of a line that reads no hidden state, nothing is claimed that was not tested.
    loaded = _loaded(explained)
    names = _names_in_instance(given.proved)
    is_own = all(_names_in_instance([one]) for one in given.proved)
    left = line_that_left(names, loaded) if is_own else None
    explained = attrs.evolve(explained, given=given, set_by_load=lines_that_set(names, loaded), left_by_load=left)
    is_shared = given.proved and all(one.kind == ALIAS for one in given.proved)
    if is_shared and cause is not None and not cause.outside:  # The line reads nothing that differs itself.
        pairs = [_pair_of(one) for one in given.proved]
        place = line_that_split(pairs, loaded)
        if place is None and (line := _line_with_default(pair[1].step, pairs)) is not None:
            cause = attrs.evolve(cause, place=line)
        return attrs.evolve(explained, cause=cause_at("shared", place, cause))
    is_other = (
        given.proved
        and not given.is_read
        and (cause is None or cause.kind not in ("load", "inexact", "order"))
        and not (cause is not None and cause.kind == "operation" and _names_one(cause, given.proved))
    )
    if is_other or (given.proved and cause is not None and _is_unseen(cause)):
        steps = [outcome.step for outcome in pair if outcome.step is not None]
        alignment = Alignment(steps[0].trace, steps[-1].trace)
        place = _line_reading(alignment, given.proved, cause if is_other else None)
        if place is not None:
            explained = attrs.evolve(explained, cause=_caused_by(place, cause))
    return _with_load(explained, loaded)


def _with_load(explained: Explanation, loaded: Sequence[LoadedValue]) -> Explanation:
    """The explanation; of a line that reads hidden state, with the line of load(), if that set all that was proved."""
    cause, proved = explained.cause, explained.given.proved if explained.given is not None else ()
    if cause is None or cause.kind != "outside" or cause.loaded_at is not None or not proved:
        return explained
    lines = [lines_that_set(_names_in_instance([one]), loaded) for one in proved]
    return attrs.evolve(explained, cause=attrs.evolve(cause, loaded_at=lines[0][0])) if all(lines) else explained


def _loaded(explained: Explanation) -> Sequence[LoadedValue]:
    """The values that load() sets in a fresh instance, of the variant that ran in one."""
    fresh = (one.step for one in explained.variants if one.step is not None and one.variant.start is None)
    return next((step.loaded for step in fresh if step.loaded), [])


def _names_in_instance(proved: Sequence[GivenValue]) -> list[str]:
    """The names of proved values that the simulation itself holds; both of two that share something."""
    own = [one for one in proved if one.kind in _OF_INSTANCE or one.is_order]
    return [name for one in own for name in _pair_of(one)]


def _pair_of(value: GivenValue) -> tuple[str, str]:
    first, _, second = value.name.partition(" and ")
    return first, second or first


def _is_unseen(cause: Cause) -> bool:
    """Return True if what differs of all that a line reads was not seen, such as a variable of a function in a dict."""
    return cause.kind == "outside" and all(one.is_digest_alone for one in cause.outside)


def _names_one(cause: Cause, proved: Sequence[GivenValue]) -> bool:
    """Return True if the line of a cause names a proved value."""
    words = set(re.findall(r"[A-Za-z_]\w*", cause.place.text))
    return any(one.word in words for one in proved)


def _words(cause: Cause | None) -> list[str]:
    """The names of what a line reads from outside the state."""
    names = [name for one in (cause.outside if cause is not None else ()) for name in _names_of(one)]
    return list(dict.fromkeys(word for name in names for word in re.findall(r"[A-Za-z_]\w*", name) if word != "self"))


def _names_of(value: DifferingValue) -> list[str]:
    """The end of a value's name, without where it is a variable, and those of its parts."""
    return [
        value.name.partition(",")[0].partition(" in ")[0].rpartition(".")[2],
        *(part[0].removeprefix(value.name) for part in value.parts),
    ]


def _line_reading(alignment: Alignment, proved: Sequence[GivenValue], cause: Cause | None) -> SourceLocation | None:
    """The last line, up to that of the cause, that names a proved value; the first line, if that is no line of the step.

    A condition that both answer alike, and a function that returns the same to both, do not lead on: of several lines, others
    count.
    """
    words, saving = {one.word for one in proved}, set[int]()  # The latter: calls of save(), and those that it makes.
    found: list[tuple[bool, SourceLocation]] = []
    for number, item in enumerate(alignment.items):
        if item.second is None:
            continue
        records = alignment.second.records
        record = records[item.second]
        if is_save(record.function) or (record.parent >= 0 and records[record.parent].frame in saving):
            saving.add(record.frame)
        source = alignment.source(record.path)
        statement = source.statement(record.line)
        if statement is None or record.frame in saving:
            continue
        place = SourceLocation(record.path, statement.first_line, record.function, source.statement_text(record.line))
        if words & {name.rpartition(".")[2] for name in (*statement.reads, *statement.calls)}:
            is_cause = cause is not None and place == cause.place
            leads_on = is_cause or not place.text.startswith(_TESTS) or _has_effect(alignment, number)
            found.append((leads_on, place))
        if cause is not None and place == cause.place and found:
            return next((one for leads_on, one in reversed(found) if leads_on), found[-1][1])
    return next((one for leads_on, one in found if leads_on), found[0][1] if found else None)


def _has_effect(alignment: Alignment, number: int) -> bool:
    """Return True if something that a line changed differs between the two, or they take different ways after it."""
    pair, after = alignment.items[number], alignment.items[number + 1 : number + 2]
    if pair.first is None or pair.second is None or any(one.first is None or one.second is None for one in after):
        return True
    one, other = alignment.first.records[pair.first].after, alignment.second.records[pair.second].after
    return one != {alignment.name_in_first(name): digest for name, digest in other.items()}


def _line_with_default(step: TracedStep | None, pairs: Sequence[tuple[str, str]]) -> SourceLocation | None:
    """The first line of a function that names its default argument, if that is one of two names of one object."""
    defaults = {name.rpartition(": ")[::2] for pair in pairs for name in pair if ": " in name}
    sources: dict[str, SourceFile] = {}
    for record in step.trace.records if step is not None and defaults else ():
        source = sources.setdefault(record.path, SourceFile(record.path))
        if (statement := source.statement(record.line)) is None:
            continue
        if any(record.function == function and name in statement.reads for function, name in defaults):
            text = source.statement_text(record.line)
            return SourceLocation(record.path, statement.first_line, record.function, text)
    return None


def _caused_by(place: SourceLocation, cause: Cause | None) -> Cause:
    if cause is None:
        return Cause("outside", place, None, None, (), None, [], [])
    outside, value = (cause.outside, cause.value) if cause.place == place else ([], None)
    # The way begins where the trace saw it begin: nothing shows that it leads through that line.
    return attrs.evolve(cause, kind="outside", place=place, outside=outside, value=value)
