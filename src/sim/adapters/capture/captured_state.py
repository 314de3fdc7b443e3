"""The attributes of foreign objects as a state of ours: packed into an arena after each step, unpacked after a load.

What there is and where it lies is found out here, once and whenever something is of another kind than before; what
each step pays for is pack.py.

Invariants:
    1. The arena is a function of the objects and of the arena before, so that the same steps from the same state give
       the same hash, whoever takes them.
    2. unpack(pack()) gives objects whose every further step is the same, as far as the structure has no unknown.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from sim.adapters.capture.pack import KINDS_FIELD, STEPS_FIELD, StepPacker, array_field, is_hot, room_for
from sim.adapters.capture.pickle_protocol import Pickler
from sim.adapters.capture.rng_state import PCG_WORDS
from sim.adapters.capture.survey import (
    NEVER_SET,
    Attribute,
    Classify,
    Structure,
    Surveyor,
    described,
    field_name,
    slots_of,
)
from sim.adapters.capture.unpack import restore_objects
from sim.adapters.capture.values import NotPlainError, decode_value, encode_value
from sim.adapters.interface.adapter_registry import NotCapturedError
from sim.adapters.interface.capture_report import Part
from sim.kernel.schema import Blob, Field, Schema
from sim.kernel.state import State

STRUCTURE, REST, CONSTANTS, TRUSTED = "structure", "rest", "constants", "trusted"
CONSTANT_CHECK_STEPS = (
    256  # So often large containers are compared with what they were; that takes up to a millisecond.
)
MOVES_OF_CELLS, MOVES_OF_REST = (
    2,
    6,
)  # From so many on an attribute is expected to move; until then each costs a survey.


CHOICES = "Choose: trust=True (such things are saved by pickle), ignore=[...] (names of those that no step reads), or "
REPEATING = "level='inputs_only' (a seek repeats the inputs since the last reset)"


class CapturedWarning(UserWarning):
    """What was taken to stay as it is has changed; the message says what that costs."""


class CapturedState:
    """The attributes of some objects, and of those in them, in an arena.

    Attributes:
        state: the arena; another one when the structure has changed.
        structure: what each attribute is.
        objects: by the names of their layers.
    """

    state: State

    def __init__(
        self,
        layers: Sequence[tuple[str, Any]],
        classify: Classify,
        *,
        pickler: Pickler | None = None,
        ignored: Iterable[str] = (),
        detached: Iterable[str] = (),
        opens_objects: bool = True,
        otherwise: str = REPEATING,
    ) -> None:
        """Look at the objects and write down what they are.

        layers: the outermost objects by their names. classify: see Surveyor. detached: layers whose arrays are taken
        as copies, whoever else holds them. pickler: for what cannot be saved
        otherwise; only where the user trusts it. ignored: full names of attributes to be kept as they are.

        opens_objects: look into objects of other classes, which must then be there when they are loaded. otherwise: what
        the user may choose if something cannot be saved, after all else.

        Raises NotCapturedError for what pickle does not take.
        """
        self._layers = list(layers)
        self._choices = CHOICES + otherwise
        self._pickler = pickler
        self._detached = frozenset(detached)
        self._surveyor = Surveyor(
            classify,
            trust=pickler is not None,
            ignored=frozenset(ignored),
            detached=self._detached,
            opens_objects=opens_objects,
        )
        self._moves: dict[tuple[str, str], int] = {}  # How often each was seen to move; what moves often is restless.
        self._steps = 0
        self._constants = b""
        self._moving_written = b""
        self.structure, self.objects = self._surveyor.survey(self._layers, None)
        self._lay_out()

    def parts(self) -> tuple[Part, ...]:
        """What is captured, layer by layer."""
        saved = {"cell", "array", "generator", "rest", "constant", "member", "object", "same", "trusted"}

        def names(layer: Any, *categories: str) -> tuple[str, ...]:
            return tuple(one.name for one in layer.attributes if one.category in categories)

        return tuple(
            Part(
                name=layer.name,
                captured=names(layer, *saved),
                kept=names(layer, "kept", "fixed", "drawing"),
                clocks=names(layer, "clock"),
                unknown={one.name: str(one.detail) for one in layer.attributes if one.category == "unknown"},
            )
            for layer in self.structure.layers
        )

    def ensure_all_known(self, subject: str) -> None:
        """Raise NotCapturedError, naming what, if there is anything that cannot be saved."""
        slotted = [f"{name}.{slot} (in __slots__)" for name, one in self.objects.items() for slot in slots_of(one)]
        if slotted:
            raise NotCapturedError(
                f"{subject} cannot be saved exactly because of {', '.join(slotted)}: only what is in __dict__ is seen"
            )
        unknown = [key for key, one in self.structure.category_of().items() if one.category == "unknown"]
        if unknown:
            raise NotCapturedError(
                f"{subject} cannot be saved exactly because of {self._named(unknown)}. {self._choices}"
            )
        if self._pickler is not None and self._trusted:
            self._pickler.ensure_loads(self._values_trusted(), self._elsewhere())

    # --- after a step

    def pack(self) -> None:
        """Write what the objects are now into the arena.

        Raises NotCapturedError if something has become what cannot be captured.
        """
        self._steps = steps = self._steps + 1
        packer = self._packer
        if not packer.pack(steps):
            self._refresh()
        elif (not self._moving_rest or self._write_rest()) and self._trusted:
            self._write_blob(TRUSTED, self._pickled())
        # After a refresh, too: in a run that was loaded there may be none at this step.
        if self._constant_names and steps % CONSTANT_CHECK_STEPS == 0:
            self._check_constants()

    def pack_anew(self) -> None:
        """The same after looking at everything anew, whatever has moved. Raises NotCapturedError."""
        self._steps += 1
        self._refresh()

    def _write_rest(self) -> bool:
        """Write the blob of all other values; False if there is something new among them, which is written then, too."""
        packer = self._packer
        try:
            # All together: one by one they would look the same when only what they share has changed.
            moving = self._encoded(self._moving_rest)
            if moving == self._moving_written:
                return True
            encoded = self._encoded(self._rest)
        except (TypeError, KeyError):
            self._refresh()
            return False
        self._write_blob(REST, encoded)
        if self._packer is packer:  # Another one may see other attributes as moving.
            self._moving_written = moving
        return True

    def _write_blob(self, name: str, content: bytes) -> None:
        if self._blobs.get(name) != content:
            self.state.set_blob(name, content)
            self._blobs[name] = content
            if self.state.arena is not self._packer.arena:
                self._make_packer()  # The blob has grown, and the arena with it.

    # --- when something is another thing than before

    def _refresh(self) -> None:
        """Look at everything anew. Raises NotCapturedError."""
        replaced = self._note_what_moved()
        structure, self.objects = self._surveyor.survey(self._layers, self._learn(replaced))
        if structure.encode() == self.structure.encode():
            self.structure = structure
            self._find_all()
            self._make_packer()
            self._write_everything()
            return
        self._refuse_new_unknowns(structure)
        changed = self._changed_constants(replaced)
        if changed:  # Otherwise the new arena would take them for what they had always been.
            structure, self.objects = self._surveyor.survey(self._layers, self._learn(replaced | changed))
        self.structure = structure
        self._lay_out()

    def _refuse_new_unknowns(self, structure: Structure) -> None:
        known = self.structure.category_of()
        found = structure.category_of().items()
        new = [key for key, one in found if one.category == "unknown" and known.get(key) != one]
        if new:
            raise NotCapturedError(f"{self._named(new)} came up in a step and cannot be saved. {self._choices}")

    def _named(self, keys: Sequence[tuple[str, str]]) -> str:
        """Attributes with what they are, and what in them it is that cannot be saved."""
        return ", ".join(f"{layer}.{name} ({described(vars(self.objects[layer])[name])})" for layer, name in keys)

    def _note_what_moved(self) -> set[tuple[str, str]]:
        """Count what has moved; which of the large containers were replaced. Raises NotCapturedError."""
        replaced = set()
        for key, one in self.structure.category_of().items():
            before = self._packer.before.get(key, self)
            if before is self or vars(self.objects[key[0]]).get(key[1], self) is before:
                continue
            self._moves[key] = self._moves.get(key, 0) + 1
            if one.category == "constant":
                replaced.add(key)
            if one.category == "fixed":
                raise NotCapturedError(
                    f"{key[0]}.{key[1]} ({one.detail}) was replaced in a step: such a thing is not saved"
                )
        return replaced

    def _learn(self, moved: set[tuple[str, str]]) -> Structure:
        """The structure until now, where these attributes are known to belong to the rest."""
        return Structure(
            tuple(
                attrs.evolve(
                    layer,
                    attributes=tuple(
                        attrs.evolve(one, category="rest", detail=None) if (layer.name, one.name) in moved else one
                        for one in layer.attributes
                    ),
                )
                for layer in self.structure.layers
            )
        )

    def _check_constants(self) -> None:
        moved = self._changed_constants(set())
        if moved:
            self.structure, self.objects = self._surveyor.survey(self._layers, self._learn(moved))
            self._lay_out()

    def _changed_constants(self, replaced: set[tuple[str, str]]) -> set[tuple[str, str]]:
        """Which of the large containers have changed in place, of which the user is warned. Raises NotCapturedError."""
        names = {full: key for full, key in self._constant_names.items() if key not in replaced}
        try:
            if not replaced and self._encoded_constants() == self._constants:
                return set()
            now = {full: encode_value(vars(self.objects[layer])[name]) for full, (layer, name) in names.items()}
        except NotPlainError as error:
            raise NotCapturedError(f"{error}, inside of what was taken not to change. {self._choices}") from None
        before = decode_value(self._constants) if names else {}
        moved = {names[full] for full, encoded in now.items() if encoded != encode_value(before[full])}
        for layer, name in sorted(moved):
            warnings.warn(
                f"{layer}.{name} was taken not to change and has changed in the last {CONSTANT_CHECK_STEPS} steps: "
                "it is saved at each step from now on; a seek into these steps may not be exact",
                CapturedWarning,
                stacklevel=4,
            )
        return moved

    # --- laying out

    def _lay_out(self) -> None:
        """Make an arena for the structure and write everything into it."""
        hot: list[Field | Blob] = [Field(STEPS_FIELD, "i8", hot=True)]
        entries: list[Field | Blob] = []
        cells = 0
        for layer in self.structure.layers:
            for one in layer.attributes:
                name = field_name(layer.name, one.name)
                if one.category == "cell":
                    entries.append(Field(name, f"{one.detail}8"))
                    cells += 1
                elif one.category == "array":
                    array = array_field(name, *one.detail)
                    size_bytes = math.prod(array.shape) * array.dtype.itemsize
                    hot.append(attrs.evolve(array, hot=is_hot(size_bytes)))
                elif one.category == "generator":
                    hot.append(Field(name, "u8", (PCG_WORDS,), hot=True))
        self._find_all()
        self._constants = self._encoded_constants()
        contents = {STRUCTURE: self.structure.encode(), REST: self._encoded(self._rest), CONSTANTS: self._constants}
        if self._trusted:
            contents[TRUSTED] = self._pickled()
        blobs = [Blob(name, room_for(content)) for name, content in contents.items()]
        self.state = State(Schema(*hot, *entries, Field(KINDS_FIELD, "u1", (cells,)), *blobs))
        for name, content in contents.items():
            self.state.set_blob(name, content)
        self._blobs = contents
        self._make_packer()
        self._write_everything()

    def _find_all(self) -> None:
        """Find, in the objects, what is written as bytes."""
        self._rest: list[tuple[str, dict[str, Any], str]] = []
        self._members: dict[str, type] = {}
        self._elsewhere_kept: list[tuple[str, dict[str, Any], str]] = []  # Than in the rest.
        self._trusted: list[tuple[str, dict[str, Any], str]] = []
        self._constant_names: dict[str, tuple[str, str]] = {}
        for layer in self.structure.layers:
            attributes = vars(self.objects[layer.name])
            for one in layer.attributes:
                full = f"{layer.name}.{one.name}"
                if one.category in ("rest", "member"):
                    self._rest.append((full, attributes, one.name))
                    if one.category == "member":
                        self._members[full] = type(attributes[one.name])
                elif one.category == "constant":
                    self._constant_names[full] = (layer.name, one.name)
                elif one.category == "trusted":
                    self._trusted.append((full, attributes, one.name))
                if one.category in ("array", "generator", "constant"):
                    self._elsewhere_kept.append((full, attributes, one.name))

    def _make_packer(self) -> None:
        self._packer = StepPacker(self.state, self.structure, self.objects, self._is_restless, self._detached)
        self._moving_rest = [entry for entry in self._rest if entry[0] in self._packer.moving_rest]
        self._moving_written = b""  # A packer is made where all is written: what was written before is no measure.

    def _is_restless(self, key: tuple[str, str], one: Attribute) -> bool:
        """Whether an attribute is looked at by itself at each step; of those in the rest that means to write them all."""
        if one.category not in ("cell", "rest", "member") or one.detail == NEVER_SET:
            return False  # Whether they are what they were decides what the structure is.
        return self._moves.get(key, 0) >= (MOVES_OF_CELLS if one.category == "cell" else MOVES_OF_REST)

    def _write_everything(self) -> None:
        written = self._packer.pack_all(self._steps)
        assert written  # The packer was made of what the objects are now.
        self._write_blob(REST, self._encoded(self._rest))
        if self._trusted:
            self._write_blob(TRUSTED, self._pickled())

    # --- as bytes

    def _known(self) -> dict[str, Any]:
        """Arrays, generators and large containers that are kept elsewhere than in the rest, by name."""
        return {full: attributes[name] for full, attributes, name in self._elsewhere_kept}

    def _encoded(self, entries: Sequence[tuple[str, dict[str, Any], str]]) -> bytes:
        """The rest, or some of it, as bytes."""
        values: dict[str, Any] = {}
        for full, attributes, name in entries:
            value = values[full] = attributes[name]
            if full in self._members:
                if self._members[full] is not type(value):
                    raise TypeError(f"{full} is no longer a member of its enumeration")
                values[full] = attributes[name].name
        return encode_value(values, {id(one): name for name, one in self._known().items()})

    def _encoded_constants(self) -> bytes:
        return encode_value(
            {full: vars(self.objects[layer])[name] for full, (layer, name) in self._constant_names.items()}
        )

    def _values_trusted(self) -> dict[str, Any]:
        return {full: attributes[name] for full, attributes, name in self._trusted}

    def _elsewhere(self) -> dict[str, Any]:
        """What is not pickled, since it is there already when a pickle is loaded."""
        return self._known() | {full: attributes[name] for full, attributes, name in self._rest} | self.objects

    def _pickled(self) -> bytes:
        assert self._pickler is not None
        known = {id(one): name for name, one in self._elsewhere().items()}
        return self._pickler.dump(self._values_trusted(), known)

    # --- after a load

    def unpack(self) -> None:
        """Make the objects what the arena says.

        Raises NotCapturedError if they are not of the kind that was saved, ValueError for an arena of something else.
        """
        state = self.state
        self.structure, self.objects = restore_objects(
            state, self._layers, self._surveyor, self._constants, self._pickler, self._detached
        )
        surveyed, objects = self._surveyor.survey(self._layers, self.structure)
        if surveyed.encode() == self.structure.encode():  # With what is not written down: kept, and to be watched.
            self.structure, self.objects = surveyed, objects
        self._steps = int(state[STEPS_FIELD])
        self._constants = state.blob(CONSTANTS)
        self._blobs = {name: state.blob(name) for name in (STRUCTURE, REST, CONSTANTS)}
        self._find_all()
        self._make_packer()
