"""A test of generators that are under way: one of B is resumed until it stands where that of A does, and the step runs then.

The position of a generator cannot be put into another one. What one yields is thrown away as it is resumed.
"""

from __future__ import annotations

import inspect
import itertools
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from types import GeneratorType
from typing import Any

from recorder.ambient.ambient import Ambient
from recorder.ambient.ambient_diff import find_candidates
from recorder.ambient.leaf_text import name_of
from recorder.ambient.object_walk import take_ambient, take_instance
from recorder.ambient.replacement.named_values import Path
from recorder.ambient.roots import Roots
from recorder.processes.fork_call import in_a_copy
from recorder.processes.isolated_fork import run_isolated
from replayer.diagnose.explain.given.give import StepEnd, end_of
from replayer.diagnose.explain.value_hash import Digester
from replayer.diagnose.explain.values.given_values import GivenValue, GivenValues
from replayer.tape.plain_state import snapshot_from_plain, snapshot_to_plain
from sim.kernel.simulation import Simulation

GENERATORS_MAX = 4
RESUMES_MAX = 5_000
SEARCH_S = 2.0
PLACES_MAX = (
    5  # Of one generator, at which it looks as that of A does: where a loop inside of it continues is not seen.
)


def give_by_resuming(
    factory: Any,
    prepare: Callable[[int | None], Simulation],
    starts: Sequence[int | None],
    inputs: Any,
    words: Collection[str],
) -> GivenValues:
    """Resume generators of B, in a process in which nothing was made before. The parameters are as for give_from_the_other.

    Raises RuntimeError if a copy of this process died, or prepare raised.
    """
    roots = Roots(type(None) if factory is None else factory)
    of_a = in_a_copy(partial(_instance_of_a, roots, lambda: prepare(starts[0]), inputs))
    second = prepare(starts[1])
    own = end_of(second, inputs)
    if of_a["end"] is None or own is None:
        return GivenValues()
    wanted = StepEnd(of_a["end"][0], snapshot_from_plain(of_a["end"][1]))
    if wanted.is_like(own):
        return GivenValues()
    differing = [
        (path, one)
        for path, one in _generators(roots, second)
        if of_a["places"].get(name_of(path), [_place(one)])[0] != _place(one)
    ]
    for path, one in differing[:GENERATORS_MAX]:
        name = name_of(path)
        place, stands = of_a["places"][name]
        for count in _counts_in_a_copy(partial(_counts, roots, path, place, second)):
            end = end_of(second, inputs, partial(_resume, one, count))
            if end is not None and end.is_like(wanted):
                times = "once" if count == 1 else f"{count:,} times"
                own_place = _stands(one)
                where = (
                    f"{stands} in A, {own_place} in B"
                    if stands != own_place
                    else f"{stands} in both, with other variables"
                )
                told = f"{where}; resumed {times} in B"
                value = GivenValue(name, "generator", told)
                return GivenValues((value,), is_read=value.word in words, is_resumed=True)
    return GivenValues()


def _instance_of_a(roots: Roots, make: Callable[[], Simulation], inputs: Any) -> dict[str, Any]:
    """Where the generators of A stand before the step, and how that ends."""
    first = make()
    places = {name_of(path): [_place(one), _stands(one)] for path, one in _generators(roots, first)}
    end = end_of(first, inputs)
    return {"places": places, "end": None if end is None else [end.raised, snapshot_to_plain(end.state)]}


def _generators(roots: Roots, simulation: Simulation) -> Iterator[tuple[Path, GeneratorType[Any, Any, Any]]]:
    for path, value in take_ambient(roots, simulation).objects.items():
        if isinstance(value, GeneratorType):
            yield path, value


def _place(generator: GeneratorType[Any, Any, Any]) -> str:
    """Where a generator stands, with its variables that are compared, such as lists and random generators."""
    return f"{Digester().digest(generator):x}"


def _stands(generator: GeneratorType[Any, Any, Any]) -> str:
    if generator.gi_frame is None:
        return "has ended"
    if inspect.getgeneratorstate(generator) == inspect.GEN_CREATED:
        return "has not begun"
    return f"stands at line {generator.gi_frame.f_lineno}"


def _counts_in_a_copy(counts: Callable[[], list[int]]) -> list[int]:
    """None, too, if the copy did not end: a generator may compute for ever."""
    messages = run_isolated(lambda send: send(counts()), 2 * SEARCH_S).messages
    return messages[0] if messages else []


def _counts(roots: Roots, path: Path, wanted: str, simulation: Simulation) -> list[int]:
    """How many times the generator at a path is resumed until it stands there; none if that changes anything else, or raises."""
    before, counts, end_s = _surroundings(roots, simulation), list[int](), time.monotonic() + SEARCH_S
    generator: GeneratorType[Any, Any, Any] = before[0].objects[path]
    for count in itertools.takewhile(lambda _: time.monotonic() < end_s, range(1, RESUMES_MAX + 1)):
        try:
            next(generator)
        except StopIteration:
            pass
        except Exception:  # noqa: BLE001 - of the user's code
            break
        if _place(generator) == wanted:
            counts.append(count)
        if generator.gi_frame is None or len(counts) == PLACES_MAX:
            break
    pairs = zip(before, _surroundings(roots, simulation), strict=True)
    changed = {place for pair in pairs for one in find_candidates(*pair) for place in one.paths}
    return counts if all(place[: len(path)] == path for place in changed) else []


def _surroundings(roots: Roots, simulation: Simulation) -> tuple[Ambient, Ambient]:
    """All that is kept; and once more what the instance does, which a generator may lead to as well."""
    return take_ambient(roots, simulation), take_instance(simulation)


def _resume(generator: GeneratorType[Any, Any, Any], count: int) -> None:
    for _ in range(count):
        next(generator, None)
