"""Record any Python object: the user names the attributes that are its state; ``step`` is called with the inputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import attrs

from sim.adapters.capture.recapture import ProvedSimulation, ProvedState
from sim.adapters.capture.rng_state import is_generator
from sim.adapters.capture.survey import Treatment
from sim.adapters.interface.adapter_registry import Adapter, NotCapturedError
from sim.adapters.interface.capture_report import Report
from sim.adapters.interface.proxy import RecordedProxy
from sim.kernel.exactness import Level, level_from
from sim.kernel.state import State

NAME = "plain_object"
OWN_SAVE = "give it .save(), .load(saved) and .step(inputs), and no fields(...)"


@attrs.frozen
class Fields:
    """The attributes of an object that are its state; see fields."""

    names: tuple[str, ...]
    rng: tuple[str, ...]
    step: str


def fields(*names: str, rng: str | Iterable[str] = (), step: str = "step") -> Fields:
    """Name the attributes of an object that are its state.

    names: of attributes; without any name, all attributes of the object. rng: the attribute, or attributes, that are
    its random generators. step: the name of the method that makes one step; it is called with the inputs.
    """
    generators = (rng,) if isinstance(rng, str) else tuple(rng)
    return Fields(names, generators, step)


class PlainObjectSimulation(ProvedSimulation):
    """An object as a simulation whose state consists of the attributes that the user named.

    Attributes:
        subject: the object.
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
        if not hasattr(subject, "__dict__"):
            raise TypeError(f"expected an object with a __dict__, which holds its attributes, got a {name}")
        if not callable(getattr(subject, what.step, None)):
            raise TypeError(f"{name} has no method {what.step}(inputs)")
        _ensure_takes_inputs(name, getattr(subject, what.step))
        missing = [attribute for attribute in (*what.names, *what.rng) if attribute not in vars(subject)]
        if missing:
            raise TypeError(f"{name} has no attribute {', '.join(missing)}")
        for attribute in what.rng:
            value = vars(subject)[attribute]
            if not is_generator(value):
                raise TypeError(f"{name}.{attribute}: expected a random generator, got {type(value).__name__}")
        self.subject = subject
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
            return "kept" if is_other else None

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

    def step(self, inputs: Any) -> Any:
        """Step the object and capture its state; return what its step returned."""
        result = getattr(self.subject, self._what.step)(inputs)
        captured = self._captured
        captured.pack()
        self.state = captured.state
        return result

    def after_restore(self) -> None:
        """Restore the object from the arena."""
        self._captured.state = self.state
        self._captured.unpack()

    def report(self) -> Report:
        """The captured attributes."""
        name = type(self.subject).__name__
        return Report(NAME, name, self.level, self._captured.parts())

    @property
    def adapter(self) -> dict[str, Any]:
        """The description of the simulation for the tape."""
        kind = type(self.subject)
        return {
            "name": NAME,
            "class": f"{kind.__module__}.{kind.__qualname__}",
            "report": self.report().to_plain(),
            "fields": {"names": list(self._what.names), "rng": list(self._what.rng), "step": self._what.step},
            "ignored": list(self._ignored),
        }


class RecordedObject(RecordedProxy):
    """A proxy for a recorded object: its step is recorded, all else is the object's own."""

    def __init__(self, simulation: PlainObjectSimulation, tape: Any) -> None:
        """tape: its recorder, with step(inputs) and close(outcome)."""
        super().__init__(simulation.subject, tape)

    def step(self, inputs: Any = None) -> Any:
        """Call the object's step, recorded."""
        return self.tape.step(inputs)


def _ensure_takes_inputs(name: str, step: Callable[..., Any]) -> None:
    """Raise TypeError for a method that cannot be called with the inputs; accept one without a known signature."""
    try:
        signature = inspect.signature(step)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(None)
    except TypeError:
        raise TypeError(
            f"{name}.{step.__name__}: expected a method that takes one argument, the inputs (None at a step without "
            f"any), got {step.__name__}{signature}"
        ) from None


def fields_from_plain(plain: Any) -> Fields:
    """The fields that a tape names. Raises ValueError for anything else."""
    match plain:
        case {"names": list(names), "rng": list(rng), "step": str(step)}:
            if all(isinstance(name, str) for name in (*names, *rng)):
                return Fields(tuple(names), tuple(rng), step)
    raise ValueError("the tape does not name the attributes that are the state")


def _adapt(subject: Any, *, what: Fields | None = None, **options: Any) -> PlainObjectSimulation:
    if what is None:
        raise NotCapturedError(
            f"expected the names of the attributes of {type(subject).__name__} that are its state, got none: "
            'pass fields("...")'
        )
    return PlainObjectSimulation(subject, what, **options)


ADAPTER = Adapter(NAME, _adapt, RecordedObject)
