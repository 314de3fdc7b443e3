"""The object that a user continues with while a plain object is recorded, and the recording behind it."""

from __future__ import annotations

import functools
import inspect
import threading
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol

from sim.adapters.capture.captured_state import CapturedWarning
from sim.adapters.capture.values import NotPlainError, decode_value, encode_value, is_immutable
from sim.adapters.interface.proxy import RecordedProxy, subject_of_proxy
from sim.adapters.plain_object.calls import CallValues, Change, StepCall, StepMethod, is_index
from sim.adapters.plain_object.divert import divert, function_of, only_parameters
from sim.user_warning import warn_user


class ObjectSimulation(Protocol):
    """The simulation of a plain object, as far as its recording uses it; see PlainObjectSimulation."""

    subject: Any
    method: StepMethod
    others: Mapping[str, StepMethod]
    pending: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]] | None
    is_stepping: bool

    def known(self) -> dict[str, Any]:
        """The values of the object's attributes that a call may refer to, by name."""

    def values_of_calls(self, *, has_changes: bool = False, before: Mapping[str, Any] | None = None) -> CallValues:
        """Write and make the objects in a call. before: the attributes as the last step left them, if they are known."""

    def is_ignored(self, name: str) -> bool:
        """Return True for an attribute that no step reads."""


_recordings: weakref.WeakValueDictionary[int, ObjectRecording] = weakref.WeakValueDictionary()  # By id of the subject.


_QUICK = frozenset(
    (float, bool, str, bytes)
)  # A single argument of these is an input as it is, as an int of 64 bits is.


class ObjectRecording:
    """One recording of a plain object: every call of its step becomes a tick.

    Attributes:
        subject: the object.
    """

    def __init__(self, simulation: ObjectSimulation, tape: Any) -> None:
        """tape: its recorder, with step(inputs), close(outcome) and is_closed."""
        self.subject = simulation.subject
        self._simulation = simulation
        self._tape = tape
        self._changes: list[Change] = []
        self._is_changing = self._changes_step = False  # A change is being made; a step was called by it.
        self._known: dict[str, Any] | None = None  # The object's values before the first of these changes.
        self._before: dict[str, Any] = {}  # All its attributes then.
        self._warned: set[str] = set()
        self._free, self._stepping_thread = (
            [None],
            0,
        )  # Taking the last item of a list is one operation for all threads.
        self._no_argument = simulation.method.encode(StepCall(), dict, simulation.values_of_calls)
        _recordings[id(self.subject)] = self
        self._ends: list[Callable[[], object]] = []
        self._live: dict[str, Callable[..., Any]] = {}  # The methods as they are unrecorded.
        self._public: dict[str, Callable[..., Any]] = {}  # The same for the user: functions of this recording.
        self._parameters: dict[str, Callable[..., Any]] = {}  # Refuse arguments that the method does not take.
        self.proxy: Callable[[], Any] = lambda: None
        for name in (simulation.method.name, *simulation.others):
            function = function_of(self.subject, name)
            self._public[name] = _public_function(name, function, is_step=name == simulation.method.name)
            if function is None:  # A method of C is recorded where it is called through the proxy.
                self._live[name] = getattr(self.subject, name)
            else:
                original, end = divert(function, name, self)
                self._live[name] = types.MethodType(original, self.subject)
                self._parameters[name] = types.MethodType(only_parameters(original), self.subject)
                self._ends.append(end)

    def method_named(self, name: str) -> Callable[..., Any] | None:
        """The recorded method of this name; None if it is not one. "step" is the step if the object has no other."""
        function = self._public.get(name)
        if function is None and name == "step" and not hasattr(self.subject, "step"):
            function = self._public[self._simulation.method.name]
        return None if function is None else types.MethodType(function, self)

    def takes_calls(self, name: str = "") -> bool:
        """Return True if a call of the method of this name now is one to record.

        Raises ConcurrentStepError if it is the step, and another thread is making one. A call of another method may be
        by a thread that works for that step.
        """
        if self._tape.is_closed:
            self.end()
            return False
        if self._is_changing:
            self._changes_step = True
            return False
        if not self._simulation.is_stepping:
            return True
        if name == self._simulation.method.name and self._stepping_thread not in (0, threading.get_ident()):
            raise self._tape.concurrent_step_error
        return False

    def record(self, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Call the method of this name, recorded, and return its result.

        Raises TypeError, before the call, for arguments that the method does not take or that cannot be recorded,
        ConcurrentStepError if another thread is making a call, and what the method raises.
        """
        try:
            self._free.pop()
        except IndexError:
            raise self._tape.concurrent_step_error from None
        self._stepping_thread = threading.get_ident()
        try:
            return self._record(name, arguments, keywords)
        finally:
            self._stepping_thread = 0
            self._free.append(None)

    def _record(self, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        simulation = self._simulation
        if arguments or keywords:
            arguments, keywords = (
                tuple(map(self._own, arguments)),
                {key: self._own(one) for key, one in keywords.items()},
            )
        if name in self._parameters:
            self._parameters[name](*arguments, **keywords)
        if self._changes or name in simulation.others:
            return self._record_changes(name, arguments, keywords)
        if keywords:
            inputs = self._encode(name, arguments, keywords, ())
        elif not arguments:
            inputs = self._no_argument
        elif len(arguments) == 1 and (type(arguments[0]) in _QUICK or is_index(arguments[0])):
            inputs = arguments[0]
        else:
            inputs = self._encode(name, arguments, keywords, ())
        simulation.pending = (self._live[name], arguments, keywords)
        try:
            return self._tape.step(inputs)
        finally:
            simulation.pending = None

    def _own(self, value: Any) -> Any:
        """The object itself for its proxy as an argument: a replay has no proxy. Any other value as it is."""
        is_own = issubclass(type(value), RecordedProxy) and subject_of_proxy(value) is self.subject
        return self.subject if is_own else value

    def _record_changes(self, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Make a call with the changes since the last one as a part of its inputs."""
        changes, self._changes = self._changes, []
        tick = self._tape.tick
        try:
            try:
                inputs = self._encode(name, arguments, keywords, changes)
            except NotPlainError:  # A later change moved an object that an earlier one assigned.
                changes = [change for change in changes if self._can_be_input(change, changes)]
                inputs = self._encode(name, arguments, keywords, changes)
            self._simulation.pending = (self._live[name], arguments, keywords)
            return self._tape.step(inputs)
        finally:
            self._simulation.pending = None
            if self._tape.tick == tick:
                self._changes = changes + self._changes  # Not on the tape yet.
            else:
                self._known, self._before = None, {}

    def _encode(
        self, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any], changes: Sequence[Change]
    ) -> Any:
        method = self._simulation.others.get(name, self._simulation.method)
        return method.encode(StepCall(arguments, keywords, changes), self._names, lambda: self._others(changes))

    def _others(self, changes: Sequence[Change]) -> CallValues:
        """What writes the objects in a call after these changes."""
        if not changes:
            return self._simulation.values_of_calls()
        are_plain = all(kind in ("set", "del") and self._is_plain(values[0]) for kind, *values in changes)
        return self._simulation.values_of_calls(has_changes=True, before=self._before if are_plain else None)

    def _is_plain(self, name: str) -> bool:
        """Return True for an attribute whose assignment changes no other one."""
        cls: Any = type(self.subject)
        is_own = hasattr(type(inspect.getattr_static(cls, name, None)), "__set__")
        return not is_own and (cls.__setattr__, cls.__delattr__) == (object.__setattr__, object.__delattr__)

    def _can_be_input(self, change: Change, changes: Sequence[Change]) -> bool:
        """Return True for a change that can be a part of the next inputs, after all of the changes; tell of any other."""
        try:
            encode_value(list(change), self._names(), self._others(changes).of_changes())
        except NotPlainError as error:
            self._tell(self._place(change), type(error.value).__qualname__)
            return False
        return True

    def _place(self, change: Change) -> str:
        kind, name = change[:2]
        return f"{type(self.subject).__name__}{f'.{name}' if kind in ('set', 'del') else f'[{name!r}]'}"

    @property
    def is_open(self) -> bool:
        """True until the tape is closed."""
        return not self._tape.is_closed

    def step(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Call the object's step, recorded, as a user does."""
        return self.call(self._simulation.method.name, arguments, keywords)

    def call(self, name: str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Call a method, recorded; inside a step the call is a part of that step.

        The proxy is returned where the method returns the object, so that a chain of calls keeps the recording.
        """
        if not self.takes_calls(name) and (self._simulation.is_stepping or self._is_changing):
            return self._live[name](*arguments, **keywords)
        result = self.record(name, arguments, keywords)
        return result if result is not self.subject else self._proxy_or(result)

    def _proxy_or(self, subject: Any) -> Any:
        proxy = self.proxy()
        return subject if proxy is None else proxy

    def make_change(self, change: Change, make: Callable[[], object]) -> None:
        """Make a change through the proxy, and keep it. A step that it calls is a part of it, as a replay repeats it."""
        if self._is_changing or self._simulation.is_stepping:
            make()
            return
        self._prepare()
        self._is_changing, self._changes_step = True, False
        try:
            make()
        finally:
            self._is_changing = False
        self._note(change)
        if self._changes_step and change[1:2] and (place := self._place(change)) not in self._warned:
            self._warned.add(place)
            warn_user(
                f"{place} was assigned from outside, and that called {self._simulation.method.name}(): the call is a part "
                "of the next step's inputs, and no tick of its own; call a method in place of the assignment",
                CapturedWarning,
            )

    def _prepare(self) -> None:
        """Keep the values that the object has before a change."""
        if self._known is None:
            self._known, self._before = self._simulation.known(), dict(vars(self.subject))
        if getattr(self._tape, "between", None) is not None:  # Earlier changes are not to be taken for this one.
            self._tape.between.before_step(self._tape.tick + 1)

    def _note(self, change: Change) -> None:
        """Keep a change that was made through the proxy, as a part of the next step's inputs."""
        kind, *values = change
        if self._tape.is_closed or self._simulation.is_ignored(str(values[0])):
            return
        others = self._others([*self._changes, change]).of_changes()
        try:
            encoded = encode_value(list(change), self._names(), others)
        except NotPlainError as error:
            self._tell(self._place(change), type(error.value).__qualname__)
            return
        is_same = kind == "set" and vars(self.subject).get(values[0], self) is values[1]
        if not is_same and not all(map(is_immutable, values)):
            change = tuple(decode_value(encoded, self._known or {}, others))  # As it is now.
        self._changes.append(change)
        if getattr(self._tape, "between", None) is not None:
            self._tape.between.keep()

    def end(self) -> None:
        """Record no more: give the methods their own code again."""
        for end in self._ends:
            end()

    def _names(self) -> dict[int, str]:
        known = self._simulation.known() if self._known is None else self._known
        return {id(value): name for name, value in known.items()}

    def _tell(self, place: str, kind: str) -> None:
        """Note on the tape that the value at a path was assigned from outside; warn of each path once."""
        if (outside := getattr(self._tape, "outside", None)) is not None:
            outside.add(self._tape.tick + 1, place)
        if place not in self._warned:
            self._warned.add(place)
            warn_user(
                f"{place} was assigned from outside, a {kind}, which cannot be an input of the next step: a replay does "
                "not know of it; assign it inside the step, or, if no step reads it, give it a value before record() and "
                f'pass ignore=["{place}"]',
                CapturedWarning,
            )


class RecordedObject(RecordedProxy):
    """A proxy for a recorded object: its step is recorded, all else is the object's own."""

    __slots__ = ("__recording",)

    def __init__(self, simulation: ObjectSimulation, tape: Any) -> None:
        """tape: its recorder, with step(inputs), close(outcome) and is_closed."""
        super().__init__(simulation.subject, tape)
        recording = ObjectRecording(simulation, tape)
        recording.proxy = weakref.ref(self)
        object.__setattr__(self, "_RecordedObject__recording", recording)

    def __getattr__(self, name: str) -> Any:
        recording = self.__recording
        method = recording.method_named(name)
        return getattr(recording.subject, name) if method is None else method

    def _recording_makes(self, change: tuple[Any, ...], operation: Callable[..., Any], *arguments: Any) -> None:
        self.__recording.make_change(change, lambda: operation(*arguments))

    def close(self, outcome: Any = None) -> None:
        """Close the tape, then the object, if it has a method ``close``."""
        try:
            super().close(outcome)
        finally:
            self.__recording.takes_calls()  # Ends the recording if the tape is closed.

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Any:
        try:
            return super().__exit__(kind, error, traceback)
        finally:
            self.__recording.takes_calls()


def _public_function(name: str, function: types.FunctionType | None, *, is_step: bool) -> Callable[..., Any]:
    """The recorded method as a function of the recording, with the name and the parameters of the object's own."""

    def step(recording: ObjectRecording, /, *arguments: Any, **keywords: Any) -> Any:
        return recording.step(arguments, keywords)

    def call(recording: ObjectRecording, /, *arguments: Any, **keywords: Any) -> Any:
        return recording.call(name, arguments, keywords)

    made = step if is_step else call
    return made if function is None else functools.update_wrapper(made, function)


def is_recorded(subject: Any) -> bool:
    """Return True if a recording of this object is open."""
    recording = _recordings.get(id(subject))
    return recording is not None and recording.subject is subject and recording.is_open
