"""Functions that are defined in another function, such as a lambda: found by their code, which that function holds.

Only those that use nothing of the function around them: then the code and the module are the whole function, and one that
is made from these does the same. Nothing of a tape is run.
"""

from __future__ import annotations

import sys
import types

from sim.adapters.capture.graph.names.classes import LOCALS, ClassFinder, NotFoundError
from sim.adapters.capture.graph.unsavable import UnsavableError

_ADVICE = "define it at the top level of a module, or use functools.partial of such a function"


def name_in_function(function: types.FunctionType, finder: ClassFinder) -> tuple[str, int]:
    """The name of a function, and its number among those of this name. Raises UnsavableError.

    It is refused if it uses variables of the function around it, or has values for its parameters.
    """
    what = f"the function {function.__qualname__}"
    if function.__closure__ or function.__defaults__ or function.__kwdefaults__ or vars(function):
        raise UnsavableError(
            f"{what} is defined in another function and uses values of it, or has values for parameters",
            _ADVICE,
        )
    outer_name, _, inner = function.__qualname__.partition(f".{LOCALS}.")
    module = sys.modules.get(function.__module__ or "")
    try:
        outer = finder.find_function(finder.name_beside(function, outer_name))
    except NotFoundError:
        outer = None
    found = [] if outer is None else [code is function.__code__ for code in _codes(outer.__code__, inner)]
    if module is None or function.__globals__ is not vars(module) or True not in found:
        raise UnsavableError(f"{what} is defined in another function, in which it is not found", _ADVICE)
    return finder.name_beside(function, function.__qualname__), found.index(True)


def function_in(name: str, index: int, finder: ClassFinder) -> types.FunctionType:
    """A function made from the code that name_in_function described. Raises NotFoundError."""
    outer_name, _, inner = name.partition(f".{LOCALS}.")
    outer = finder.find_function(outer_name)
    codes = _codes(outer.__code__, inner)
    if not inner or not 0 <= index < len(codes) or codes[index].co_freevars:
        raise NotFoundError(f"expected the function {name!r}, but there is no such function now")
    made = types.FunctionType(codes[index], outer.__globals__)
    made.__qualname__, made.__module__ = f"{outer.__qualname__}.{LOCALS}.{inner}", outer.__module__
    return made


def _codes(outer: types.CodeType, inner: str) -> list[types.CodeType]:
    """The codes of this name in the code of a function, in the order of their definitions."""
    codes = [outer]
    for name in inner.replace(f"{LOCALS}.", "").split("."):
        held = [one for code in codes for one in code.co_consts if isinstance(one, types.CodeType)]
        codes = [one for one in held if one.co_name == name]
    return codes
