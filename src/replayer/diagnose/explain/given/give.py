"""A test of values outside the state: those of one instance are put into another one, and the step runs there."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import attrs

from recorder.ambient.ambient import Ambient
from recorder.ambient.ambient_diff import Candidate, find_candidates
from recorder.ambient.caches.compiled_constants import CompiledFunctions
from recorder.ambient.object_walk import take_ambient
from recorder.ambient.roots import Roots
from recorder.ambient.transplant import give_values, not_taken
from recorder.exception_text import comparable_error
from recorder.processes.fork_call import in_a_copy
from replayer.desync.object_diff import are_equal
from replayer.diagnose.explain.given.compiled_before import CompiledBefore, Constant
from replayer.diagnose.explain.given.unsaved import unsaved_values
from replayer.diagnose.explain.trace_step import run_untraced
from replayer.diagnose.explain.values.given_values import ALIKE, NOT_PUT, GivenValue, GivenValues, Unsaved
from replayer.tape.plain_state import snapshot_from_plain
from sim.kernel.simulation import Simulation
from sim.kernel.state import Snapshot

CACHES_MAX = 6
ALONE_MAX = 12  # Values that are put in one by one.
NARROW_S = 10.0  # From when on no smaller set of values is searched: each test runs the step RUNS times.
RUNS = 3  # Of each test: a step that draws one of two values passes by chance once in eight times.
_STEPS = {"attribute", "global", "class", "closure", "default", "function attribute", "local", "item", "ambient"}

_LETTERS = {
    "in the live run": "in A",
    "for the copy": "in B",
    "after the load": "in B",
    "the live run": "A",
    "the copy": "B",
}

Prepare = Callable[[int | None], Simulation]  # Makes a simulation in the state before the step, by where it starts.


def give_from_the_other(
    factory: Any, prepare: Prepare, starts: Sequence[int | None], inputs: Any, words: Iterable[str]
) -> GivenValues:
    """Put values of A into B, both made in this process, which is not to be used afterwards.

    factory: whose modules are searched; None for a registered world. starts: of A and B. words: names that the line reads
    from outside the state. Raises what prepare raises, and RuntimeError if a copy of this process died.
    """
    roots = Roots(type(None) if factory is None else factory)
    before, functions = take_ambient(roots, None), CompiledFunctions(roots)
    first = prepare(starts[0])
    roots.add_types(take_ambient(roots, first).types)
    before.add_contents(take_ambient(roots, None))
    live = take_ambient(roots, first)
    wanted, emptied = end_of(first, inputs), _without_caches(first, inputs, roots)
    compiled = CompiledBefore(functions, first, inputs)
    before.put_back()
    roots.empty_caches()
    compiled.renew()
    second = prepare(starts[1])
    own = end_of(second, inputs)
    if wanted is None or own is None:
        return GivenValues(why_not="the step is non-deterministic")
    if wanted.is_like(own):
        return GivenValues(why_not=ALIKE)
    test = _Test(live, take_ambient(roots, second), second, inputs, wanted, roots)
    given = _judged(test, own, set(words))
    given = _with_frozen(given, test, own, compiled) if given.proved else _by_constants(given, test, own, compiled)
    return given if given.proved else _by_caches(given, test, own, emptied)


@attrs.frozen(eq=False)
class StepEnd:
    """The end of a step: the error that it raised, or the state."""

    raised: str | None
    state: Snapshot

    def is_like(self, other: StepEnd) -> bool:
        """Return True for an end of the same state, or with the same error."""
        is_one_error = comparable_error(self.raised) == comparable_error(other.raised)
        return is_one_error and (self.raised is not None or are_equal(self.state, other.state))


def _without_caches(simulation: Simulation, inputs: Any, roots: Roots) -> dict[int, StepEnd | None]:
    """The ends of the step with one cache empty, by the cache's id: not all that one keeps can be put into an instance."""
    kept = {id(cache): cache for _, _, cache in roots.caches() if cache.cache_info().currsize}
    ends = {}
    end_s = time.monotonic() + NARROW_S
    for number in itertools.takewhile(lambda _: time.monotonic() < end_s, list(kept)[:CACHES_MAX]):
        others = [cache for _, _, cache in roots.caches() if id(cache) != number]
        ends[number] = end_of(simulation, inputs, partial(_empty, roots, others))
    return ends


def _empty(roots: Roots, kept: Sequence[Any]) -> None:
    roots.empty_caches(kept)


@attrs.frozen(eq=False)
class _Test:
    """What is put into a copy, and what it gives."""

    live: Ambient
    copy: Ambient
    second: Simulation
    inputs: Any
    wanted: StepEnd
    roots: Roots

    def gives(self, candidates: Sequence[Candidate]) -> StepEnd | None:
        """What B gives with values of A; None if that differs from run to run."""
        return end_of(self.second, self.inputs, partial(self._give, candidates))

    def proves(self, candidates: Sequence[Candidate]) -> bool:
        end = self.gives(candidates) if candidates else None
        return end is not None and end.is_like(self.wanted)

    def takes(self, candidates: Sequence[Candidate]) -> bool:
        """Return True if a copy that was given them does not differ in any of them: what stays as it was is not tested."""

        def differing() -> dict[str, Any]:
            self._give(candidates)
            return {"names": sorted(not_taken(self.live, take_ambient(self.roots, self.second), candidates))}

        return not in_a_copy(differing)["names"]

    def unsaved(self, candidates: Sequence[Candidate]) -> tuple[Unsaved, ...]:
        """Those that save() does not tell apart: the ones that B has, and that B takes."""
        taken = [one for one in candidates if self.takes([one])]
        return unsaved_values(self.second, taken, self.copy.objects, lambda one: self._give([one]))

    def _give(self, candidates: Sequence[Candidate]) -> None:
        give_values(self.live, self.copy, self.second.state, candidates)


def _by_constants(given: GivenValues, test: _Test, own: StepEnd, compiled: CompiledBefore) -> GivenValues:
    """The values that compiled functions took as constants, each alone, with which B gives the state of A."""
    found = _proved_constants(compiled.differing(test.second, test.inputs), test, own)
    return GivenValues(tuple(one.told() for one in found), is_read=True) if found else given


def _with_frozen(given: GivenValues, test: _Test, own: StepEnd, compiled: CompiledBefore) -> GivenValues:
    """What was proved; of a global that functions take as a constant when they are compiled, whether that alone does it."""
    words = {one.word for one in given.proved}
    taken = [one for one in compiled.taken_in_step(test.second, test.inputs) if one.name in words]
    return attrs.evolve(given, frozen=tuple(one.frozen() for one in _proved_constants(taken, test, own)))


def _proved_constants(constants: Sequence[Constant], test: _Test, own: StepEnd) -> list[Constant]:
    """Those with which B gives the state of A. Compiled again with what B has itself, the functions must leave B as it is."""
    end_s = time.monotonic() + NARROW_S

    def gives(put: Callable[[], None], wanted: StepEnd) -> bool:
        end = end_of(test.second, test.inputs, put)
        return end is not None and end.is_like(wanted)

    proved = []
    for number, one in enumerate(constants[:ALONE_MAX]):
        if (
            number and time.monotonic() > end_s
        ):  # The first one is always tested: numba may take long on a busy machine.
            break
        proved += [one] if gives(one.put, test.wanted) and gives(one.put_own, own) else []
    return proved


def _by_caches(given: GivenValues, test: _Test, own: StepEnd, emptied: dict[int, StepEnd | None]) -> GivenValues:
    """The caches with which empty A gives the state of B. Nothing is said of the effect of those that cannot be put in."""
    caches = [one for one in find_candidates(test.live, test.copy) if one.kind == "cache"]
    proved = []
    for one in caches:
        end = emptied.get(id(test.live.objects.get(one.paths[0])))
        proved += [one] if end is not None and end.is_like(own) else []
    if proved:
        return GivenValues(tuple(map(_told, proved)), is_read=True, is_emptied=True)
    if caches and given.why_not is None and not test.takes(caches):
        return GivenValues(why_not="what a cache keeps was not put into another instance")
    return given


def _judged(test: _Test, own: StepEnd, words: set[str]) -> GivenValues:
    candidates = find_candidates(test.live, test.copy)
    if not candidates:
        return GivenValues(why_not="nothing that differs was found that can be put into another instance")
    read = [one for one in candidates if words & _words_of(one)]
    for chosen in filter(None, (read, candidates)):
        if test.proves(chosen):
            needed, is_alone = _needed(test, chosen)
            rest = tuple(_told(one) for one in candidates if one not in needed)
            told, unsaved = tuple(map(_told, needed)), test.unsaved(needed)
            return GivenValues(told, is_alone=is_alone, is_read=chosen is read, not_needed=rest, unsaved=unsaved)
    if not read or not test.takes(read):
        return GivenValues(why_not=NOT_PUT)
    given = test.gives(read)
    if given is None:
        return GivenValues(why_not="put into B as A has it, the step is non-deterministic")
    if not given.is_like(own):
        return GivenValues()
    others = test.gives(candidates)
    have_none = others is not None and others.is_like(own) and test.takes(candidates)
    return GivenValues(without_effect=tuple(map(_told, read)), nor_others=have_none)


def _needed(test: _Test, candidates: Sequence[Candidate]) -> tuple[list[Candidate], bool]:
    """Those that prove it alone, and True; or else some that prove it together, and False.

    None of these can be left out, unless there are many or the step takes long.
    """
    if len(candidates) == 1:
        return list(candidates), True
    tried, end_s = list(itertools.islice(candidates, ALONE_MAX)), time.monotonic() + NARROW_S
    in_time = partial(itertools.takewhile, lambda _: time.monotonic() < end_s)
    if alone := [one for one in in_time(tried) if test.proves([one])]:
        return alone, True
    needed = list(candidates)
    for one in in_time(tried):
        rest = [other for other in needed if other is not one]
        if test.proves(rest):
            needed = rest
    return needed, False


def _words_of(candidate: Candidate) -> set[str]:
    return {str(name).rpartition(":")[2] for path in candidate.paths for kind, name in path if kind in _STEPS}


def _told(candidate: Candidate) -> GivenValue:
    detail = candidate.detail
    for words, letter in _LETTERS.items():
        detail = detail.replace(words, letter)
    return GivenValue(candidate.name, "functools.lru_cache" if candidate.kind == "cache" else candidate.kind, detail)


def end_of(simulation: Simulation, inputs: Any, change: Callable[[], None] = lambda: None) -> StepEnd | None:
    """The end of the step in copies of this process, after a change there; None if that differs from copy to copy."""

    def run(work: Callable[[Simulation], dict[str, Any]]) -> dict[str, Any]:
        def changed() -> dict[str, Any]:
            change()
            return work(simulation)

        return in_a_copy(changed)

    ran = [run_untraced(run, inputs) for _ in range(RUNS)]
    ends = [StepEnd(one["raised"], snapshot_from_plain(one["state"])) for one in ran]
    return ends[0] if all(one.is_like(ends[0]) for one in ends) else None
