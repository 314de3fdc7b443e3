"""Kinds of objects that cannot be saved in any way, each with the reason and what to do instead.

Classes are named by texts: an object of one of them exists only where its module was imported, so nothing is imported here.
"""

from __future__ import annotations

import array
import copyreg
import random
import types
from typing import Any

from sim.adapters.capture.graph.kinds.kind_protocol import HEAP_TYPE
from sim.kernel.class_names import module_of, package_of
from sim.kernel.foreign_arrays import is_compiled_function


def refusal(value: Any) -> str | None:
    """The reason why objects of this kind cannot be saved and what to do instead, in one line; None for all others."""
    kind = type(value)  # Not isinstance: a weakref.proxy claims the class of its object.
    if kind is types.FunctionType:
        return _refused_function(value)
    if is_compiled_function(value):
        return "a compiled function is kept as it is, but only in an attribute of its own: move it there"
    for base in kind.__mro__:
        text = _REFUSED.get(f"{module_of(base)}.{base.__qualname__}")
        if text is not None:
            return text
    return refusal_of_package(kind)


def refusal_of_unknown(value: Any) -> tuple[str, str]:
    """The reason against an object of a C type that is not known, or of a class derived from one, and what to do instead."""
    kind = type(value)
    trust = "pass trust=True (it is pickled)" if is_picklable(value) else ""
    # All classes of Python code are heap types, and some of C code.
    base = next((one for one in kind.__mro__ if one in _HEAP_TYPES or not one.__flags__ & HEAP_TYPE), object)
    if base is kind or base is object:
        return "it is an object of a C type that is not known", trust or "keep what you need of it in attributes"
    instead = f"keep a plain {base.__qualname__} in an attribute of an object in its place"
    return f"its class is derived from the C type {base.__qualname__}", f"{instead}, or {trust}" if trust else instead


def is_picklable(value: Any) -> bool:
    """Return True if a value of an unknown C type says how it is pickled; nothing is pickled here."""
    if type(value) in copyreg.dispatch_table:
        return True
    try:
        value.__reduce_ex__(4)
    except Exception:  # noqa: BLE001 - C code may raise anything
        return False
    return True


def refusal_of_package(kind: type) -> str | None:
    """The reason against all objects of a package, and what to do instead; None for other packages."""
    return next((text for base in kind.__mro__ if (text := _BY_PACKAGE.get(package_of(base))) is not None), None)


def refusal_of_simulation(value: Any) -> str | None:
    """The reason why a value cannot be saved as a simulation, and what to do instead; None if none is known."""
    return refusal(value) if isinstance(value, _GENERATORS) else refusal_of_package(type(value))


def _refused_function(function: types.FunctionType) -> str | None:
    if function.__name__ == "<lambda>":
        return "a lambda has no name to find it by: define a function at the top level of a module"
    if "<locals>" in function.__qualname__:
        return (
            f"the function {function.__qualname__} is defined in another function, and cannot be found by its name: "
            "define it at the top level of a module"
        )
    return None


_HEAP_TYPES = (array.array, random.Random)
_KEEP = "keep the elements in a list with an index, or make it again in each step"
_OUTSIDE = "make it outside the simulation's state, or list its name in ignore=[...]"
_DRAWING = (
    "keep its name or its file in the objects and the thing itself in a dict of the module; if it is in an attribute of the "
    "recorded object that no step reads, list that in ignore=[...]"
)
_ITERTOOLS = (
    "accumulate", "batched", "combinations", "combinations_with_replacement", "compress", "dropwhile", "filterfalse",
    "groupby", "_grouper", "islice", "pairwise", "permutations", "product", "starmap", "takewhile", "_tee", "zip_longest",
)  # fmt: skip
_DEQUE = "an iterator over a deque cannot be made at a position: iterate over list(...) of the deque"
_PROXY = "a weakref.proxy hides its object: keep weakref.ref(...) instead"
_LOCK = f"a lock cannot be saved: {_OUTSIDE}"
_QUEUE = f"a queue of threads cannot be saved: use collections.deque, or {_OUTSIDE}"
_FUTURE = f"a future cannot be saved: {_OUTSIDE}"

_GENERATORS = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
_BY_PACKAGE = {
    "envpool": (
        "EnvPool steps its environments in threads of C++ without a way to save them: record gymnasium.make_vec(..., "
        'vectorization_mode="sync") of the same environments'
    ),
    "simpy": (
        "SimPy's processes are running generators, whose position Python does not give away: record the values that "
        "your processes keep, with save(), and a load() that starts the processes again from them"
    ),
}
_REFUSED: dict[str, str] = {
    "builtins.generator": f"a generator's frame cannot be saved: {_KEEP}",
    "builtins.coroutine": "a coroutine's frame cannot be saved: keep the state in attributes, and a step as a method",
    "builtins.async_generator": f"an asynchronous generator's frame cannot be saved: {_KEEP}",
    "builtins.zip": f"zip does not show its position: {_KEEP}",
    "builtins.map": f"map does not show its position: {_KEEP}",
    "builtins.filter": f"filter does not show its position: {_KEEP}",
    "builtins.set_iterator": (
        "an iterator over a set does not show its position: iterate over sorted(...) or list(...) of the set"
    ),
    "builtins.odict_iterator": (
        "an iterator over an OrderedDict cannot be made at a position: iterate over list(...) of it, or use a dict"
    ),
    "builtins.memory_iterator": "an iterator over a memoryview does not show its position: keep the view and an index",
    "collections._deque_iterator": _DEQUE,
    "_collections._deque_iterator": _DEQUE,
    "collections._deque_reverse_iterator": _DEQUE,
    "_collections._deque_reverse_iterator": _DEQUE,
    **{f"itertools.{name}": f"itertools.{name.strip('_')} does not show its position: {_KEEP}" for name in _ITERTOOLS},
    "re.Match": "a match of a regular expression cannot be made again: keep its groups or spans",
    "weakref.ProxyType": _PROXY,
    "builtins.weakproxy": _PROXY,
    "weakref.CallableProxyType": _PROXY,
    "builtins.weakcallableproxy": _PROXY,
    "weakref.finalize": f"a weakref.finalize is registered with the interpreter: {_OUTSIDE}",
    "random.SystemRandom": "random.SystemRandom has no state that could be saved: use random.Random with a seed",
    "_io.StringIO": "io.StringIO is a stream: keep the text itself",
    "_io.BytesIO": "io.BytesIO is a stream: keep the bytes themselves, or a bytearray",
    "_io._IOBase": f"an open file cannot be saved: keep its path, or {_OUTSIDE}",
    "_socket.socket": f"a socket cannot be saved: {_OUTSIDE}",
    "subprocess.Popen": f"a process cannot be saved: {_OUTSIDE}",
    "multiprocessing.process.BaseProcess": f"a process cannot be saved: {_OUTSIDE}",
    "_thread.lock": _LOCK,
    "_thread.RLock": _LOCK,
    "threading._RLock": _LOCK,
    "threading.Condition": f"a threading.Condition cannot be saved: {_OUTSIDE}",
    "threading.Semaphore": f"a semaphore cannot be saved: {_OUTSIDE}",
    "threading.Event": f"a threading.Event cannot be saved: keep a bool, or {_OUTSIDE}",
    "threading.Barrier": f"a threading.Barrier cannot be saved: {_OUTSIDE}",
    "threading.Thread": f"a thread cannot be saved: {_OUTSIDE}",
    "_thread._local": f"data of threads cannot be saved: {_OUTSIDE}",
    "queue.Queue": _QUEUE,
    "_queue.SimpleQueue": _QUEUE,
    "concurrent.futures._base.Executor": f"an executor cannot be saved: {_OUTSIDE}",
    "concurrent.futures._base.Future": _FUTURE,
    "_asyncio.Future": _FUTURE,
    "asyncio.events.AbstractEventLoop": f"an event loop cannot be saved: {_OUTSIDE}",
    "_contextvars.ContextVar": f"a context variable cannot be saved: {_OUTSIDE}",
    "pygame.surface.Surface": f"a pygame.Surface is a picture: {_DRAWING}",
    "pygame.mask.Mask": "a pygame.Mask cannot be saved: keep an array of booleans, or make it again in each step",
    "pygame.font.Font": f"a pygame.font.Font draws texts: {_DRAWING}",
    "pygame.time.Clock": f"a pygame.time.Clock measures the time of the day, which no replay has: {_DRAWING}",
    "pygame.mixer.Sound": f"a pygame.mixer.Sound plays: {_DRAWING}",
    "builtins.BaseException": "an exception of C code with values of its own cannot be saved: keep its text",
    "builtins.frame": "a frame cannot be saved: keep what you need of it in attributes",
    "builtins.traceback": "a traceback cannot be saved: keep its text",
    "builtins.code": "code cannot be saved: keep the function, which is found by its name",
    "builtins.cell": "a cell of a closure cannot be saved: keep its content in an attribute",
}
