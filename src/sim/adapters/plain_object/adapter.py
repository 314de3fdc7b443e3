"""Record any Python object: its attributes are the state, and each call of its step is a tick."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from sim.adapters.capture.arguments.held_objects import HeldObjects
from sim.adapters.capture.arguments.object_values import ObjectValues
from sim.adapters.capture.graph.names.classes import ClassFinder
from sim.adapters.capture.recapture import ProvedSimulation, ProvedState
from sim.adapters.capture.rng_state import is_generator
from sim.adapters.capture.survey import LEFT_OUT, Treatment
from sim.adapters.capture.unpack import parts_of
from sim.adapters.interface.adapter_registry import Adapter, NoStepError, NotCapturedError
from sim.adapters.interface.attempts import KeepsItsAttempts
from sim.adapters.interface.capture_report import Report
from sim.adapters.interface.proxy import make_proxy
from sim.adapters.plain_object.calls import StepCall, StepMethod, ensure_not_held, takes
from sim.adapters.plain_object.divert import function_of
from sim.adapters.plain_object.recorded import RecordedObject, is_recorded
from sim.kernel.class_names import importable_name
from sim.kernel.exactness import Level, level_from
from sim.kernel.simulation import NOTHING_MADE
from sim.kernel.state import State

NAME = "plain_object"
OWN_SAVE = "give it .save(), .load(saved) and .step(inputs), and no fields(...)"
_MADE_BY_PYTHON = 1 << 9  # Py_TPFLAGS_HEAPTYPE; some classes of C have it as well, with a __new__ of their own.
AFTER_LOAD = "_after_load_of_a_state"  # A class with this method hears of each load: one that has more than the state.
RESET = "reset"  # Its calls are recorded without being named: they are how an episode begins.
METHODS_SHOWN = 12  # Of an object without the step; more would fill the screen.


@attrs.frozen
class Fields:
    """The attributes of an object that are its state, and the methods whose calls are ticks; see fields.

    Attributes:
        names: of the attributes that are the state; empty for all of them.
        rng: names of the attributes that are random generators.
        step: the name of the method that makes a step.
        calls: names of further methods whose calls are ticks; None for ``reset``, if the object has it.
    """

    names: tuple[str, ...]
    rng: tuple[str, ...]
    step: str
    calls: tuple[str, ...] | None = None

    def with_step(self, step: str | Iterable[str]) -> Fields:
        """These fields with other methods. Raises TypeError for anything but names."""
        names = (step,) if isinstance(step, str) else tuple(step)
        if not names or not all(isinstance(name, str) for name in names):
            raise TypeError(f"step={step!r}: expected the name of a method, or several")
        return attrs.evolve(self, step=names[0], calls=names[1:] or None)


def fields(*names: str, rng: str | Iterable[str] = (), step: str | Iterable[str] = "step") -> Fields:
    """Name the attributes of an object that are its state.

    names: of attributes; without any name, all attributes of the object. rng: the attribute, or attributes, that are
    its random generators. step: the name of the method that makes one step, and of further methods whose calls are
    recorded, too: ("advance", "spawn"). By default that is ``reset``, if the object has it.

    Examples:
        >>> dice = recorder.record(Dice(), "rolls.tape", fields("rolls", rng="random", step="roll"), quiet=True)
        >>> dice.roll()
        >>> dice.close()
    """
    generators = (rng,) if isinstance(rng, str) else tuple(rng)
    return Fields(names, generators, "step").with_step(step)


class PlainObjectSimulation(KeepsItsAttempts, ProvedSimulation):
    """An object as a simulation whose state consists of its attributes, or of those that the user named.

    Attributes:
        subject: the object.
        method: its step.
        others: further methods whose calls are ticks, by name.
        pending: the call that the next step makes, in place of the one in its inputs: the same one, of live values. It
            has the function, the arguments and the keywords.
        is_stepping: True while the step runs.
    """

    def __init__(
        self,
        subject: Any,
        what: Fields,
        *,
        level: Level | str | None = None,
        ignore: Iterable[str] = (),
        pickler: Any = None,
    ) -> None:
        """Survey the object.

        Raises TypeError for an object without this step or these attributes, NotCapturedError for attributes that
        cannot be saved, ValueError for an unknown level.
        """
        name = type(subject).__name__
        _ensure_can_step(subject, what)
        base = _base_of_c(type(subject))
        if base is not object and not what.names:
            raise NotCapturedError(
                f"{name} is a {base.__name__}, whose content is not in its attributes: keep a {base.__name__} in an "
                f"attribute instead, name the attributes that are its state, fields(...), or {OWN_SAVE}"
            )
        self.subject = subject
        self.method = StepMethod(what.step, getattr(subject, what.step))
        self._calls = _other_calls(subject, what)
        self.others = {name: StepMethod(name, getattr(subject, name), is_step=False) for name in self._calls}
        self.pending: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]] | None = None
        self.is_stepping = False
        self._class = type(subject)
        self._ignored = tuple(ignore)
        self.level = level_from(level)
        if self.level is Level.INPUTS_ONLY:
            raise ValueError(
                "level='inputs_only' is not available: an object has no reset from which its inputs could be repeated"
            )
        self._what = what
        state_names = frozenset((*what.names, *what.rng)) if what.names else None

        def classify(holder: object, attribute: str, _: Any) -> Treatment | None:
            is_other = state_names is not None and holder is subject and attribute not in state_names
            return LEFT_OUT if is_other else None

        home = type(subject).__module__
        self._captured = ProvedState(
            [(name, subject)],
            classify,
            home=home,
            classifies_layers_only=True,
            ignored=self._ignored,
            pickler=pickler,
            otherwise=OWN_SAVE,
        )
        self._captured.ensure_all_known(name)
        self.state: State = self._captured.state
        self._values_for: HeldObjects | None = None
        self._values: ObjectValues  # What writes the calls without changes since the last step, made for these objects.

    @property
    def trial_inputs(self) -> Callable[[int], Callable[[], Any]] | None:
        """See sim.kernel.hooks.SuggestsInputs: the object's own, or calls without arguments.

        None for a step that needs an argument, and for one that takes none.
        """
        if callable(inspect.getattr_static(self._class, "trial_inputs", None)):
            return self.subject.trial_inputs  # type: ignore[no-any-return]
        signature = self._signature()
        if signature is None or not signature.parameters or not takes(signature):
            return None
        return lambda _: lambda: {self.method.key: [[], {}]}

    @property
    def needs_arguments(self) -> bool:
        """True for a step that cannot be called without arguments, of an object that suggests none for trials."""
        signature = self._signature()
        return self.trial_inputs is None and signature is not None and not takes(signature)

    def _signature(self) -> inspect.Signature | None:
        try:
            return inspect.signature(getattr(self.subject, self._what.step))
        except (TypeError, ValueError):
            return None

    def rehearse(self) -> None:
        """Raise NotCapturedError if the object is being recorded already."""
        if is_recorded(self.subject):
            raise NotCapturedError(
                f"{self._class.__name__} is being recorded already: two recordings would step it in turns; close the "
                "first one"
            )

    def _call(self, inputs: Any) -> Any:
        if self.pending is not None:
            step, arguments, keywords = self.pending
        else:
            method, known = self.method_of(inputs), self._known_of(inputs)
            changes = method.decode_changes(inputs, known, self.values_of_calls)
            before = dict(vars(self.subject)) if changes else None
            for change in changes:
                _change(self.subject, change)
            call = method.decode(inputs, known, lambda: self.values_of_calls(before=before))
            step, arguments, keywords = getattr(self.subject, method.name), call.arguments, dict(call.keywords)
        self._ensure_same_class()
        self.is_stepping = True
        try:
            return step(*arguments, **keywords)
        finally:
            self.is_stepping = False

    def method_of(self, inputs: Any) -> StepMethod:
        """The method that these inputs call."""
        if type(inputs) is not dict:
            return self.method
        return next((other for other in self.others.values() if other.key in inputs), self.method)

    def decoded(self, inputs: Any) -> tuple[StepMethod, StepCall]:
        """The method that these inputs call, and its call, without the changes before it, which are not made either.

        Raises ValueError for a damaged one.
        """
        method, known = self.method_of(inputs), self._known_of(inputs)
        before, now = dict(vars(self.subject)), dict(vars(self.subject))
        for kind, name, *values in method.decode_changes(inputs, known, self.values_of_calls):
            if kind == "set":
                now[name] = values[0]
            elif kind == "del":
                now.pop(name, None)
        return method, method.decode(inputs, known, lambda: self.values_of_calls(before=before, now=now))

    def _known_of(self, inputs: Any) -> dict[str, Any]:
        return self.known() if type(inputs) is dict else {}

    def _capture(self, inputs: Any) -> None:
        del inputs  # The object alone is the state.
        self._ensure_same_class()
        left_out = self._captured.held.take_left_out()
        self._captured.pack()
        self.state = self._captured.state
        ensure_not_held(left_out, self.values_of_calls)

    def _is_all_python(self) -> bool:
        return True

    def _ensure_same_class(self) -> None:
        if type(self.subject) is not self._class:
            raise NotCapturedError(
                f"the object's class was {self._class.__name__} when its recording began, and is now "
                f"{type(self.subject).__name__}: a replay makes an object of the first one; record a new object"
            )

    def known(self) -> dict[str, Any]:
        """The values of the object's attributes that a call may refer to, by name."""
        return {
            name: value
            for name, value in vars(self.subject).items()
            if isinstance(value, list | dict | set | np.ndarray)
        }

    def values_of_calls(
        self,
        *,
        has_changes: bool = False,
        before: Mapping[str, Any] | None = None,
        now: Mapping[str, Any] | None = None,
    ) -> ObjectValues:
        """Write and make the objects in a call. has_changes, before, now: what was assigned since the last step; see ObjectValues."""
        held = self._captured.held
        if has_changes or before is not None or now is not None:
            return ObjectValues(
                held.finder, self.subject, held, ignored=self._ignored, has_changes=has_changes, before=before, now=now
            )
        if self._values_for is not held:
            self._values_for, self._values = held, ObjectValues(held.finder, self.subject, held, ignored=self._ignored)
        return self._values

    @property
    def finder(self) -> ClassFinder:
        """Of the classes that the object's calls may have."""
        return self._captured.held.finder

    def is_ignored(self, name: str) -> bool:
        """Return True for an attribute that no step reads."""
        return f"{self._class.__name__}.{name}" in self._ignored

    def after_restore(self) -> None:
        """Restore the object from the arena."""
        self._captured.state = self.state
        self._captured.unpack()
        hears = getattr(self._class, AFTER_LOAD, None)
        if hears is not None:
            hears(self.subject)

    def report(self) -> Report:
        """The captured attributes."""
        note = f"{self.method.name} is no Python function: only calls through the result count"
        notes = (note,) if function_of(self.subject, self.method.name) is None else ()
        return Report(NAME, self._class.__name__, self.level, parts_of(self._captured.structure), notes, self._ignored)

    @property
    def adapter(self) -> dict[str, Any]:
        """The description of the simulation for the tape."""
        return {
            "name": NAME,
            "class": importable_name(self._class),
            "report": self.report().to_plain(),
            "fields": {
                "names": list(self._what.names),
                "rng": list(self._what.rng),
                "step": self._what.step,
                "calls": list(self._calls),
            },
            "ignored": list(self._ignored),
        }


def _base_of_c(kind: type) -> type:
    """The first base class that C code makes, which may keep more than the attributes: object, or dict, or Random."""
    return next(
        base
        for base in kind.__mro__
        if not base.__flags__ & _MADE_BY_PYTHON or getattr(vars(base).get("__new__"), "__self__", None) is base
    )


def _ensure_can_step(subject: Any, what: Fields) -> None:
    """Raise TypeError for an object without this step or these attributes."""
    name = type(subject).__name__
    if subject is None:
        raise TypeError(NOTHING_MADE)
    if not hasattr(subject, "__dict__"):
        raise TypeError(f"expected an object with a __dict__, which holds its attributes, got a {name}")
    step = getattr(subject, what.step, None)
    if not callable(step):
        raise _no_method(subject, what.step)
    if inspect.iscoroutinefunction(step) or inspect.isgeneratorfunction(step) or inspect.isasyncgenfunction(step):
        raise TypeError(
            f"{name}.{what.step}: expected a method that makes a step when it is called, got a coroutine or generator, "
            "which does so later: name a method that runs it to its end"
        )
    missing = [attribute for attribute in (*what.names, *what.rng) if attribute not in vars(subject)]
    if missing:
        raise TypeError(f"{name} has no attribute {', '.join(missing)}")
    for attribute in what.rng:
        value = vars(subject)[attribute]
        if not is_generator(value):
            raise TypeError(f"{name}.{attribute}: expected a random generator, got {type(value).__name__}")


def _other_calls(subject: Any, what: Fields) -> tuple[str, ...]:
    """The names of further methods whose calls are ticks: those that the user named, or reset.

    Raises NoStepError for a name that is not one of a method.
    """
    if what.calls is None:
        has_reset = what.step != RESET and function_of(subject, RESET) is not None
        return (RESET,) if has_reset else ()
    wrong = [name for name in what.calls if not callable(getattr(subject, name, None))]
    if wrong:
        raise _no_method(subject, wrong[0])
    return tuple(name for name in dict.fromkeys(what.calls) if name != what.step)


def _no_method(subject: Any, missing: str) -> NoStepError:
    """The error for a step that the object does not have: it lists the object's methods."""
    kinds = [kind for kind in type(subject).__mro__ if kind is not object]
    names = {
        name for kind in kinds for name, value in vars(kind).items() if callable(value) and not name.startswith("_")
    }
    methods = tuple(sorted(names))
    several = ", ".join(methods[:METHODS_SHOWN]) + (", …" if len(methods) > METHODS_SHOWN else "")
    return NoStepError(
        f"{type(subject).__name__} has no method {missing}(): name the one that makes a step as "
        f'step="{methods[0] if len(methods) == 1 else "..."}"; it has the methods {several or "(none)"}',
        methods,
    )


def _change(subject: Any, change: Sequence[Any]) -> None:
    """Make a change again that was made from outside in the recorded run. Raises ValueError for any other."""
    match list(change):
        case ["set", str(name), value]:
            setattr(subject, name, value)
        case ["del", str(name)]:
            delattr(subject, name)
        case ["setitem", key, value]:
            subject[key] = value
        case ["delitem", key]:
            del subject[key]
        case _:
            raise ValueError(f"expected a change of the object, got {change!r}")


def fields_from_plain(plain: Any) -> Fields:
    """The fields that a tape names. Raises ValueError for anything else."""
    match plain:
        case {"names": list(names), "rng": list(rng), "step": str(step)}:
            calls = plain.get("calls", [])  # Older tapes have none.
            if isinstance(calls, list) and all(isinstance(name, str) for name in (*names, *rng, *calls)):
                return Fields(tuple(names), tuple(rng), step, tuple(calls))
    raise ValueError("the tape does not name the attributes that are the state")


def _adapt(subject: Any, *, what: Fields | None = None, **options: Any) -> PlainObjectSimulation:
    return PlainObjectSimulation(subject, fields() if what is None else what, **options)


def _door(simulation: PlainObjectSimulation, tape: Any) -> Any:
    return make_proxy(RecordedObject, simulation.subject, simulation, tape)


ADAPTER = Adapter(NAME, _adapt, _door)
