"""A proxy for a recorded object: the caller uses it in place of the object.

It behaves as the object: attributes are read, assigned and deleted there, ``len``, ``in``, iteration, indexing, ``==``,
``bool``, ``repr``, arithmetic and calls are the object's where its class has them, ``isinstance`` with the object's
class holds, and a copy is a copy of the object, which is not recorded. Python looks special methods up in the class, so
each class of objects has a class of proxies, made by ``make_proxy``.

Three names are the proxy's own (OWN_NAMES): ``tape``, ``subject`` and ``close``. Reach an attribute of the object that
has one of these names as ``.subject.tape``.
"""

from __future__ import annotations

import copy
import inspect
import operator
import types
import weakref
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any

OWN_NAMES = ("tape", "subject", "close")


def can_take(function: Callable[..., Any], *arguments: Any) -> bool:
    """Whether a function can be called with these arguments; without a signature, whether there are none."""
    try:
        signature = inspect.signature(function)
    except Exception:  # noqa: BLE001 - of a builtin, or what the code of a user raises for __signature__
        return not arguments
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True


class RecordedProxy:
    """A stand-in for an object: subclasses record the step, close() closes the tape, the rest is the object's own.

    Attributes:
        tape: the recorder.
    """

    __slots__ = ("__subject", "__weakref__", "tape")
    _recording_names: tuple[str, ...] = OWN_NAMES

    def __init__(self, subject: Any, tape: Any) -> None:
        """subject: the object. tape: its recorder, with step(inputs) and close(outcome)."""
        object.__setattr__(self, "_RecordedProxy__subject", subject)
        object.__setattr__(self, "tape", tape)

    @property
    def subject(self) -> Any:
        """The object itself."""
        return self.__subject

    def close(self, outcome: Any = None) -> None:
        """Close the tape, then the object, if it has a method ``close``.

        One that must be given arguments does something else, such as closing an order: it is not called. With an outcome that
        such a method could take, the call may have been meant for it: TypeError, and the recording goes on.
        """
        if outcome is not None:
            self._recording_refuses_as_outcome(outcome)
        try:
            self.tape.close(outcome)
        finally:
            close = self._recording_own_close()
            if callable(close) and can_take(close):
                close()

    def _recording_refuses_as_outcome(self, outcome: Any) -> None:
        """Raise TypeError if the object's own ``close`` needs arguments, or could take this one, which is no dict."""
        close = None
        with suppress(Exception):  # It is asked for once more when the tape is closed, and raises then.
            close = self._recording_own_close()
        if callable(close) and (not can_take(close) or (not isinstance(outcome, dict) and can_take(close, outcome))):
            raise TypeError(
                "close is a name of the recording itself: for the object's own method, which takes arguments, use "
                ".subject.close; to end the recording with an outcome, .tape.close(outcome)"
            )

    def _recording_own_close(self) -> Any:
        """The object's own ``close``; None without one. An error of a ``__getattr__`` that was asked for it means none."""
        try:
            return getattr(self.__subject, "close", None)
        except Exception:  # A __getattr__ may raise anything for a name that it does not know.
            if inspect.getattr_static(self.__subject, "close", None) is not None:
                raise
            return None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__subject, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self._recording_refuses(name)
        self._recording_makes(("set", name, value), setattr, self.__subject, name, value)

    def __delattr__(self, name: str) -> None:
        self._recording_refuses(name)
        self._recording_makes(("del", name), delattr, self.__subject, name)

    def _recording_refuses(self, name: str) -> None:
        if name in self._recording_names:
            raise AttributeError(
                f"{name} is a name of the recording itself: for the object's own attribute use .subject.{name}"
            )

    def _recording_makes(self, change: tuple[Any, ...], operation: Callable[..., Any], *arguments: Any) -> None:
        """Make a change through the proxy: ("set", name, value), ("del", name) or ("setitem", key, value)."""
        del change
        operation(*arguments)

    def __dir__(self) -> list[str]:
        return sorted({*dir(self.__subject), *self._recording_names})

    def __copy__(self) -> Any:
        return copy.copy(self.__subject)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return copy.deepcopy(self.__subject, memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__subject.__reduce_ex__(protocol)

    def __eq__(self, other: object) -> Any:
        return self.__subject == subject_of_proxy(other)

    def __ne__(self, other: object) -> Any:
        return self.__subject != subject_of_proxy(other)

    def __hash__(self) -> int:
        return hash(self.__subject)

    def __repr__(self) -> str:
        return repr(self.__subject)

    def __str__(self) -> str:
        return str(self.__subject)

    def __format__(self, spec: str) -> str:
        return format(self.__subject, spec)

    def __enter__(self) -> Any:
        enter = getattr(type(self.__subject), "__enter__", None)
        entered = enter(self.__subject) if enter is not None else self.__subject
        return self if entered is self.__subject else entered

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Any:
        leave = getattr(type(self.__subject), "__exit__", None)
        try:
            self.tape.__exit__(kind, error, traceback)
        finally:
            swallows = leave(self.__subject, kind, error, traceback) if leave is not None else None
        return swallows

    # Last: from here on the name would mean the property in this class's body.
    __class__ = property(lambda self: type(self.subject))


def subject_of_proxy(value: Any) -> Any:
    """The object itself, of a proxy; any other value as it is."""
    return value.subject if isinstance(value, RecordedProxy) else value


def make_proxy(kind: type[RecordedProxy], subject: Any, *arguments: Any) -> Any:
    """A proxy of this kind with the special methods that the class of subject has. arguments: of kind, in order."""
    return _class_for(kind, type(subject))(*arguments)


_classes: weakref.WeakKeyDictionary[type, dict[type, type]] = weakref.WeakKeyDictionary()


def _class_for(kind: type[RecordedProxy], subject_class: type) -> type:
    made = _classes.setdefault(subject_class, {})
    if kind not in made:
        namespace: dict[str, Any] = {
            "__slots__": (),
            "__doc__": subject_class.__doc__,
            "__module__": subject_class.__module__,
        }
        for name, make in _SPECIAL.items():
            methods = [vars(base)[name] for base in subject_class.__mro__[:-1] if name in vars(base)]
            if methods and methods[0] is not None and name not in vars(kind):
                namespace[name] = make(name)
        if getattr(subject_class, "__hash__", None) is None:
            namespace["__hash__"] = None
        made[kind] = types.new_class(
            f"Recorded{subject_class.__name__}", (kind,), {}, lambda body: body.update(namespace)
        )
    return made[kind]


def _forward(name: str) -> Callable[..., Any]:
    """Call the special method of the object's class."""

    def forward(self: Any, *arguments: Any, **keywords: Any) -> Any:
        subject = subject_of_proxy(self)
        return getattr(type(subject), name)(subject, *map(subject_of_proxy, arguments), **keywords)

    return forward


def _forward_operator(name: str) -> Callable[..., Any]:
    """Apply the operator to the object: Python then also asks the other operand."""
    operation = getattr(operator, name)

    def forward(self: Any, *arguments: Any) -> Any:
        subject = subject_of_proxy(self)
        result = operation(subject, *map(subject_of_proxy, arguments))
        return self if result is subject else result

    return forward


def _forward_change(name: str) -> Callable[..., Any]:
    """Change an item of the object, and note that."""
    operation, word = getattr(operator, name), name.strip("_")

    def forward(self: Any, *arguments: Any) -> None:
        subject = subject_of_proxy(self)
        self._recording_makes((word, *arguments), operation, subject, *map(subject_of_proxy, arguments))

    return forward


def _forward_reflected(name: str) -> Callable[..., Any]:
    operation = getattr(operator, f"__{name.removeprefix('__r')}")

    def forward(self: Any, other: Any) -> Any:
        return operation(other, subject_of_proxy(self))

    return forward


_ARITHMETIC = [
    "add",
    "sub",
    "mul",
    "matmul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "lshift",
    "rshift",
    "and",
    "xor",
    "or",
]
_SPECIAL: dict[str, Callable[[str], Callable[..., Any]]] = {
    **dict.fromkeys(
        (
            f"__{name}__"
            for name in [
                "len",
                "length_hint",
                "iter",
                "next",
                "reversed",
                "missing",
                "call",
                "bool",
                "bytes",
                "int",
                "float",
                "complex",
                "index",
                "round",
                "trunc",
                "floor",
                "ceil",
                "aiter",
                "anext",
                "await",
                "aenter",
                "aexit",
                "buffer",
                "release_buffer",
            ]
        ),
        _forward,
    ),
    **dict.fromkeys(
        (
            f"__{name}__"
            for name in (
                ["lt", "le", "gt", "ge", "contains", "getitem", "neg", "pos", "abs", "invert"]
                + _ARITHMETIC
                + [f"i{name}" for name in _ARITHMETIC]
            )
        ),
        _forward_operator,
    ),
    "__setitem__": _forward_change,
    "__delitem__": _forward_change,
    **dict.fromkeys((f"__r{name}__" for name in _ARITHMETIC), _forward_reflected),
}
