"""Prove a captured state: take it from the objects again, compare, and digest their values by other code.

Large containers that have not changed are not compared here: CapturedState does so after each step, with a look of its
own. The digest of the values includes them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from sim.adapters.capture.captured_state import CapturedState
from sim.adapters.capture.compared.first_change import first_change
from sim.adapters.capture.digest.attribute_reader import AttributeReader
from sim.adapters.capture.digest.value_digest import ValueSubject
from sim.adapters.capture.digest.value_hooks import DigestsValues
from sim.adapters.capture.foreign_fields import named_arrays
from sim.adapters.capture.graph.names.ignored import ensure_names_match
from sim.adapters.capture.graph.unsavable import UnsavableError
from sim.adapters.capture.own_memory import TEXT_KINDS
from sim.adapters.capture.pack import KINDS_FIELD
from sim.adapters.capture.repeated.inputs_since_reset import InputsSinceReset
from sim.adapters.capture.rng_state import is_generator, pcg_bytes
from sim.adapters.capture.survey import KIND_NUMBERS, LEFT_OUT, Attribute, Classify, Structure, field_name
from sim.kernel.exactness import Level
from sim.kernel.foreign_arrays import to_numpy
from sim.kernel.state import State

_LEFT_ALONE = ("kept", "clock", "drawing", "unknown")  # Not saved, as the adapter or the user chose: not proved either.
_COARSE = ("kept", LEFT_OUT, "clock", "drawing")
OUTLIVING_MAX = 3  # Examples of objects of C code that outlive a reset.
_MISSING: Any = object()


class ProvedState(CapturedState):
    """A captured state that can be compared with its objects.

    Attributes:
        home: the module of the user's class, see ValueSubject.
        is_skipped: true while steps are only counted, see sim.kernel.hooks.SkipsCapture.
    """

    is_skipped = False

    def __init__(
        self,
        layers: Sequence[tuple[str, Any]],
        classify: Classify,
        *,
        home: str = "",
        classifies_layers_only: bool = False,
        **options: Any,
    ) -> None:
        """classifies_layers_only: classify gives None for any other object. The other options: see CapturedState."""
        self._classifies_layers_only = classifies_layers_only
        self._readers: dict[type, AttributeReader] = {}
        self.home = home
        super().__init__(layers, classify, **options)

    def skip(self, *, skips: bool) -> None:
        """Only count the next steps, or take their states again."""
        self.is_skipped = skips
        if skips:
            self.pack = self._count_step  # type: ignore[method-assign]  # No step of a recording asks for it.
        else:
            vars(self).pop("pack", None)

    def _count_step(self) -> None:
        self._steps += 1

    def count_steps(self, count: int) -> None:
        """Count steps whose states are not taken."""
        self._steps += count

    def unpack(self) -> None:
        """See CapturedState: whatever was skipped is restored, too."""
        if self.is_skipped:
            self._look_again()
        super().unpack()

    def _look_again(self) -> None:
        """Find the objects as they are now. The arena stays as it was at the last step that was not skipped."""
        try:
            self.structure, self.objects = self._surveyor.survey(self._layers, self.structure)
        except UnsavableError as error:
            raise self._appeared(error) from None

    def recapture(self) -> list[str]:
        """Compare the arena with the objects, repair it, and return the full names of the attributes that differed.

        Raises NotCapturedError if an attribute has a value that cannot be captured.
        """
        try:
            structure, objects = self._surveyor.survey(self._layers, self.structure)
        except UnsavableError as error:
            raise self._appeared(error) from None
        paths = list(_structural_differences(self.structure, structure))
        paths += [name for name, one in objects.items() if self.objects.get(name, one) is not one]
        if not paths:
            self._find_all()  # Again: an object may have another __dict__ than at the last survey.
            paths = list(self._differing_values())
        if paths:
            self.structure, self.objects = structure, objects
            self._lay_out()
        return paths or self.recapture_rest()

    def capture_as_first(self) -> None:
        """Write the objects into the arena, all nodes of the graph numbered again. Raises NotCapturedError."""
        self._graph.forget()
        self._graph.is_forgotten = True  # The capture empties its columns first.
        try:
            self._refresh()
        except UnsavableError as error:
            raise self._appeared(error) from None

    def keep_start(self) -> Callable[[], bool] | None:
        """Keep the values of the objects, see ProvedSimulation.keep_start; None for values that pickle may change."""
        from sim.adapters.capture.repeated.kept_start import KeptStart, NotKeptError  # noqa: PLC0415 - loads pickle

        constants, steps = self._constants, self._steps
        try:
            kept = KeptStart(self.structure, self.objects, self._graph.groups.global_names)
        except NotKeptError:
            return None

        def return_to_start() -> bool:
            if self._constants is not constants or self.constants_have_changed():
                return (
                    False  # Other attributes have fields of their own since, or a container that is left alone changed.
                )
            kept.restore()
            self._steps = steps
            return True

        return return_to_start

    def _differing_values(self) -> Iterator[str]:
        state, cell_count = self.state, 0
        kinds = state[KINDS_FIELD].tolist()
        for layer in self.structure.layers:
            attributes = vars(self.objects[layer.name])
            for one in layer.attributes:
                value = attributes.get(one.name, _MISSING)
                if one.category == "cell":
                    cell_count += 1
                    if kinds[cell_count - 1] != KIND_NUMBERS.get(type(value)):
                        yield f"{layer.name}.{one.name}"
                        continue
                if not self._is_in_arena(one, field_name(layer.name, one.name), value):
                    yield f"{layer.name}.{one.name}"

    def _is_in_arena(self, one: Attribute, name: str, value: Any) -> bool:
        """Return True if a field of the arena holds this value; also for an attribute without a field. name: of it."""
        if one.category not in ("cell", "array", "generator", "foreign"):
            return True
        try:
            if one.category == "foreign":
                arrays = named_arrays(name, value)
                return all(self.state[full].tobytes() == to_numpy(array).tobytes() for full, array in arrays)
            kept = self.state[name]
            if one.category == "cell":
                return kept.tobytes() == _cell_bytes(one.detail, value)
            if one.category == "generator":
                return kept.tobytes() == pcg_bytes(value)
            is_text = value.dtype.kind in TEXT_KINDS
            return (is_text or value.shape == kept.shape) and kept.tobytes() == _array_bytes(value)
        except (AttributeError, TypeError, ValueError, LookupError, OverflowError):
            return False  # A value of another kind.

    @property
    def is_comparable(self) -> bool:
        """True if first_change can tell what has changed: the objects of the last step are still kept."""
        return not self._graph.is_forgotten

    def first_change(self) -> str | None:
        """The path of the first value that is not as at the last step; None if there is none. Nothing is written."""
        path = self._packer.replaced() or next(self._differing_values(), None)
        if path is not None:
            return path
        missing = next((full for full, attributes, name in self._rest if name not in attributes), None)
        if missing is not None:
            return missing
        path = first_change(self._graph, [attributes[name] for _, attributes, name in self._rest])
        if path is None:
            return self._constants.first_change(self.objects)
        index, _, inside = path.removeprefix("[").partition("]")
        return f"{self._rest[int(index)][0]}{inside}"

    def ensure_names_match(self, ignored: Iterable[str]) -> None:
        """Raise ValueError for a name to leave out that no attribute of the objects has."""
        ensure_names_match(ignored, self.objects, self._graph.groups.classes())

    def has_generator(self) -> bool:
        """Return True if there is a random generator inside of the objects' attributes."""
        return any(map(is_generator, self._graph.special.objects.values()))

    # --- the values

    def subject(self) -> ValueSubject:
        """The objects for a digest of their values, without the attributes that are not saved."""
        if self.is_skipped:
            self._look_again()
        left_alone: dict[int, set[str]] = {}
        for layer in self.structure.layers:
            left_alone[id(self.objects[layer.name])] = {
                one.name for one in layer.attributes if one.category in _LEFT_ALONE
            }
        classify, ignored = self._classify, self._graph.groups.ignored_of_classes()

        def excluded(holder: object, name: str) -> bool:
            names = left_alone.get(id(holder))
            if names is not None:
                return name in names
            if name in ignored.get(type(holder), ()):
                return True
            return classify(holder, name, getattr(holder, name, None)) in _COARSE

        is_of_layers = self._classifies_layers_only and not ignored
        holders = {key for key, names in left_alone.items() if names} if is_of_layers else None
        return ValueSubject(dict(self._layers), excluded, holders, self.home, self._detached, self._readers)


class ProvedSimulation(DigestsValues):
    """The optional members of a simulation whose state is a ProvedState, or inputs. Inputs are not captured again."""

    level: Level
    state: State
    _captured: ProvedState
    _repeated: InputsSinceReset | None = None  # At the level inputs_only, in place of the captured state.

    @property
    def recapture(self) -> Callable[[], Sequence[str]] | None:
        """See sim.kernel.hooks.CanRecapture."""
        return None if self.level is Level.INPUTS_ONLY else self._recapture

    @property
    def capture_skipped(self) -> bool | None:
        """See sim.kernel.hooks.SkipsCapture. None where inputs are the state: they cost little."""
        return None if self._repeated is not None else self._captured.is_skipped

    @capture_skipped.setter
    def capture_skipped(self, is_skipped: bool) -> None:
        self._captured.skip(skips=is_skipped)

    @property
    def keyframe_deferred(self) -> Callable[[], bool] | None:
        """See sim.kernel.hooks.DefersKeyframes: a large container has changed since the last step."""
        return None if self.level is Level.INPUTS_ONLY else self._captured.constants_have_changed

    def ensure_names_match(self, ignored: Iterable[str]) -> None:
        """Raise ValueError for a name to leave out that no attribute has."""
        (self._captured if self._repeated is None else self._repeated).ensure_names_match(ignored)

    def watch_values(self) -> Callable[[], str | None]:
        """See sim.kernel.hooks.WatchesValues."""
        if self._repeated is not None or not self._captured.is_comparable:
            return super().watch_values()
        return self._first_change

    def _first_change(self) -> str | None:
        self._retake()
        return self._captured.first_change()

    def value_subject(self) -> ValueSubject:
        """The objects whose values are digested."""
        return self._captured.subject() if self._repeated is None else self._repeated.subject()

    def value_digest(self) -> bytes:
        """See sim.kernel.hooks.HasValueDigest. Empty before the first reset at the level inputs_only."""
        if self._repeated is not None and not self._repeated.has_inputs:
            return b""  # What an environment drew when it was made differs, until a reset draws it again.
        if self.capture_skipped:
            self._retake()
        return super().value_digest()

    def values_not_read(self) -> Sequence[str]:
        """See sim.kernel.hooks.NamesUnreadValues; and which of those objects the last reset did not make again."""
        outliving = () if self._repeated is None else self._repeated.outliving[:OUTLIVING_MAX]
        return [*super().values_not_read(), *(f"{name} (outlives a reset)" for name in outliving)]

    def _retake(self) -> None:
        """Read compiled objects, of which the captured objects are copies."""

    def capture_as_first(self) -> None:
        """Take the whole state from the objects as if for the first time: equal values then have equal states.

        Objects are numbered in the order of their paths, whichever came and went before.
        """
        if self._repeated is not None:
            return  # The inputs are the state, and are kept with each step.
        self._retake()
        self._captured.capture_as_first()
        self.state = self._captured.state

    def _is_all_python(self) -> bool:
        return False

    def _returned(self) -> None:
        """Forget what belongs to the last call: the objects are at the start again."""

    def keep_start(self) -> Callable[[], bool] | None:
        """Keep the values that the objects have now; the function that is returned goes back to them, quicker than a load.

        None where the state is not in the objects of Python alone, or a trial does not give the same state and the same
        digest of values: the objects are then in no known state. The function returns False, and does nothing, if it
        cannot go back any more.
        """
        if self._repeated is not None or not self._is_all_python():
            return None
        before = self._proof()
        go_back = self._captured.keep_start()
        if go_back is None:
            return None

        def return_to_start() -> bool:
            is_there = go_back()
            self._returned()
            return is_there

        try:
            is_same = return_to_start() and not self.values_not_read() and self._proof() == before
        except Exception:  # noqa: BLE001 - the classes of the user's objects may raise anything: a load is done then
            return None
        return return_to_start if is_same else None

    def _proof(self) -> tuple[int, bytes]:
        self.capture_as_first()
        return self.state.hash(), self.value_digest()

    def _recapture(self) -> Sequence[str]:
        self._retake()
        paths = self._captured.recapture()
        self.state = self._captured.state
        return paths


def _structural_differences(ours: Structure, fresh: Structure) -> Iterable[str]:
    """The attributes for which the structure has no room, or another one."""
    if ours == fresh:
        return
    before, now = ours.category_of(), fresh.category_of()
    for key in sorted(before.keys() | now.keys()):
        if _fits(before.get(key), now.get(key)):
            continue
        yield f"{key[0]}.{key[1]}"


def _fits(before: Attribute | None, now: Attribute | None) -> bool:
    if before == now or all(one is None or one.category in _LEFT_ALONE for one in (before, now)):
        return True
    # An array whose memory something else holds by now would get another category, but fits into its field as before.
    return before is not None and now is not None and (before.category, now.category) == ("array", "rest")


def _cell_bytes(letter: str, value: Any) -> bytes:
    number = 0 if value is None else int(value) if letter == "i" else float(value)
    return struct.pack("<q" if letter == "i" else "<d", number)


def _array_bytes(value: Any) -> bytes:
    if value.dtype.kind in TEXT_KINDS:
        return np.ascontiguousarray(value).view(np.uint8).tobytes()
    return bytes(value.tobytes())
