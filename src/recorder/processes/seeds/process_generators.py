"""The random generators that a process has once: of the module random, of numpy.random, of numba's compiled code.

A fork reseeds some of them by itself: Python its own, numba its two. A copy that is to be exact gets the states of its
parent. A copy that stands for a new process gets what a new process would have: a state that an import has seeded, or
else one drawn by chance.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import numpy as np

TWISTER = "MT19937"  # Of NumPy's generator, unless a program puts another one in its place.
PYTHONS, NUMPYS = "random", "np.random"
NUMBAS = (
    "numba's np.random",
    "numba's random",
)  # Of the current thread; a half of a pair of normal numbers is not kept.
TORCHS = "PyTorch's default generator"
DRAWN_ROUNDS_MAX = 2000  # Of 624 numbers of 32 bits: what an import draws without a seed.

States = dict[str, Any]  # By name: the states of the generators that the process has loaded.

_imported: States = {}  # Those that the import of the user's module has seeded.


def generator_states() -> States:
    """The states of the process's generators. Numba's are seeded by this, if they were not."""
    return _pythons_and_numpys() | numba_states()


def numba_states() -> States:
    """The states of numba's generators in this thread; empty if numba is not loaded."""
    library = _numba()
    return {name: library.rnd_get_state(pointer) for name, pointer in _numba_pointers(library).items()}


def all_states(names: Collection[str] | None = None) -> States:
    """Those of generator_states() and that of PyTorch, which a fork leaves as it is; of these generators alone if given."""
    states = States()
    if names is None or PYTHONS in names:
        states[PYTHONS] = random.getstate()
    if names is None or NUMPYS in names:
        states[NUMPYS] = _numpys()
    if names is None or not set(NUMBAS).isdisjoint(names):
        states |= numba_states()
    torch: Any = sys.modules.get("torch")
    if (names is None or TORCHS in names) and hasattr(torch, "get_rng_state"):
        states[TORCHS] = (torch.get_rng_state().numpy().tobytes(),)
    return states


def seed_all(seed: int) -> None:
    """Give all generators of the process, with that of PyTorch, the state of a seed, in 0 to 2**32 - 1."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - that of the process
    library = _numba()
    for pointer in _numba_pointers(library).values():
        library.rnd_seed(pointer, seed)
    torch: Any = sys.modules.get("torch")
    if hasattr(torch, "manual_seed"):
        torch.manual_seed(seed)


def seed_one(name: str, seed: int) -> None:
    """Give one generator of the process the state of a seed; the others keep theirs."""
    others = {other: state for other, state in all_states().items() if other != name}
    seed_all(seed)
    put_states(others)


def put_states(states: States) -> None:
    """Give generators these states, also that of PyTorch."""
    set_generator_states(states)
    torch: Any = sys.modules.get("torch")
    if TORCHS in states:
        torch.set_rng_state(torch.frombuffer(bytearray(states[TORCHS][0]), dtype=torch.uint8))


def set_generator_states(states: States) -> None:
    """Give the process's generators these states; those of numba only where it is loaded."""
    if PYTHONS in states:
        random.setstate(states[PYTHONS])
    if NUMPYS in states:
        _set_numpys(states[NUMPYS])
    library = _numba()
    for name, pointer in _numba_pointers(library).items():
        if name in states:
            library.rnd_set_state(pointer, states[name])


def forked_states() -> States:
    """The states that a fork would change by itself. A worker of ForkPool changes all, see begin_with_imported_states."""
    return {PYTHONS: random.getstate()} | numba_states()


def begin_with_imported_states(*, reseeds: bool = False) -> None:
    """In a copy of this process that stands for a new one: give the generators the states that imports have seeded.

    reseeds: give the others a state by chance. Without it they have what the fork left.
    """
    if reseeds:
        reseed()
    set_generator_states(_imported)


def reseed() -> None:
    """Give all generators a state by chance."""
    random.seed()
    np.random.seed()  # noqa: NPY002
    library = _numba()
    for pointer in _numba_pointers(library).values():
        library.rnd_seed(pointer, random.SystemRandom().getrandbits(32))


def is_same_state(first: Any, second: Any) -> bool:
    """Compare two states of one generator."""
    return all(np.array_equal(one, other) for one, other in zip(first, second, strict=True))


@contextmanager
def noting_imported_states() -> Iterator[None]:
    """Note which generators the user's module seeds while it is imported: those of random and of numpy.random.

    Numba's are not noted: they cannot be read without being seeded.
    """
    before = _pythons_and_numpys()
    yield
    after = _pythons_and_numpys()
    _imported.update({name: after[name] for name in after if is_seeded_between(before[name], after[name])})


def is_seeded_between(before: Any, after: Any) -> bool:
    """Return True if a generator of random or numpy.random was given a state that drawing from the earlier one cannot give.

    DRAWN_ROUNDS_MAX rounds of drawing are tried.
    """
    if before[0] != after[0]:
        return True  # Another generator was put in its place.
    if isinstance(before[0], str) and before[0] != TWISTER:
        return False  # Of others, draws and seeds are not told apart.
    (old, position), (new, _) = _words(before), _words(after)
    if np.array_equal(old, new):
        return False  # Or it was seeded with the very same number before.
    generator = np.random.MT19937(0)
    generator.state = {"bit_generator": TWISTER, "state": {"key": old, "pos": position}}
    generator.random_raw(len(old) - position + 1, output=False)  # Up to the first number of the next round.
    for _ in range(DRAWN_ROUNDS_MAX):
        if np.array_equal(generator.state["state"]["key"], new):
            return False
        generator.random_raw(len(old), output=False)
    return True


def _pythons_and_numpys() -> States:
    return {PYTHONS: random.getstate(), NUMPYS: _numpys()}


@attrs.frozen
class _Bits:
    """The state of a generator that np.random.set_bit_generator put there; equal if its text is."""

    text: str
    state: Any = attrs.field(eq=False, repr=False)


def _numpys() -> tuple[Any, ...]:
    """The state of NumPy's generator; of one that a program put there, its name and its state."""
    state: Any = np.random.get_state(legacy=False)  # noqa: NPY002 - that of the process
    if state["bit_generator"] != TWISTER:
        return state["bit_generator"], _Bits(repr(state), state)
    words = state["state"]
    return TWISTER, words["key"], words["pos"], state["has_gauss"], state["gauss"]


def _set_numpys(state: tuple[Any, ...]) -> None:
    numpys: Any = np.random  # Its stubs lack the two functions.
    if numpys.get_bit_generator().state["bit_generator"] != state[0]:
        numpys.set_bit_generator(getattr(numpys, state[0])())
    numpys.set_state(state if state[0] == TWISTER else state[1].state)


def _words(state: Any) -> tuple[Any, int]:
    """The 624 words of a generator's state, and the position in them."""
    if state[0] == TWISTER:
        return np.asarray(state[1], np.uint32), int(state[2])
    *words, position = state[1]
    return np.array(words, np.uint32), int(position)


def _numba() -> Any:
    """The part of numba with its generators; None if it is not loaded, or has them otherwise."""
    library: Any = sys.modules.get("numba._helperlib")
    needed = ("rnd_get_np_state_ptr", "rnd_get_py_state_ptr", "rnd_get_state", "rnd_set_state", "rnd_seed")
    return library if library is not None and all(hasattr(library, name) for name in needed) else None


def _numba_pointers(library: Any) -> dict[str, Any]:
    """Where the states of its generators are, by name; empty without numba."""
    if library is None:
        return {}
    return dict(zip(NUMBAS, (library.rnd_get_np_state_ptr(), library.rnd_get_py_state_ptr()), strict=True))
