"""The attributes of foreign objects as a State: packed into an arena after each step, unpacked after a load.

This module makes the structure and the layout, at the start and whenever an attribute is of a different kind than
before. The work of each step is in pack.py.

Invariants:
    1. The arena is a function of the objects and of the previous arena, so that equal steps from equal states give
       equal hashes in every process.
    2. unpack(pack()) gives objects whose further steps are equal, if the structure has no unknown attribute.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from sim.adapters.capture.foreign_fields import foreign_fields
from sim.adapters.capture.pack import KINDS_FIELD, STEPS_FIELD, StepPacker, array_field, is_hot, room_for
from sim.adapters.capture.pickle_protocol import Pickler
from sim.adapters.capture.rng_state import PCG_WORDS
from sim.adapters.capture.survey import (
    NEVER_SET,
    Attribute,
    Classify,
    Structure,
    Surveyor,
    field_name,
    named,
    slots_of,
)
from sim.adapters.capture.unpack import restore_objects
from sim.adapters.capture.values import NotPlainError, decode_value, encode_value
from sim.adapters.interface.adapter_registry import NotCapturedError
from sim.adapters.interface.capture_report import Part
from sim.kernel.schema import Blob, Field, Schema
from sim.kernel.state import State

STRUCTURE, REST, CONSTANTS, TRUSTED = "structure", "rest", "constants", "trusted"
CONSTANT_CHECK_STEPS = 256  # Large containers are compared every 256 steps; that takes up to a millisecond.
# After this many moves an attribute is expected to move. Until then each move costs a survey.
MOVES_OF_CELLS, MOVES_OF_REST = 2, 6


CHOICES = "Choose trust=True (such values are saved by pickle), ignore=[...] (names of those that no step reads), or "
REPEATING = "level='inputs_only' (a seek repeats the inputs since the last reset)"


class CapturedWarning(UserWarning):
    """A value that was assumed to be constant has changed; the message states the consequence."""


class CapturedState:
    """The attributes of some objects, and of the objects inside them, in an arena.

    Attributes:
        state: the arena; replaced when the structure changes.
        structure: the category of each attribute.
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
        """Survey the objects and write them into an arena.

        layers: the outermost objects by their names. classify: see Surveyor. detached: layers whose arrays count as
        copies, even if other objects hold them. pickler: for values that cannot be saved otherwise; only where the user
        trusts it. ignored: full names of attributes that are neither saved nor restored.

        opens_objects: capture the attributes of objects of other classes, which must then exist at a load. otherwise:
        the last option in the message for a value that cannot be saved.

        Raises NotCapturedError for a value that pickle refuses.
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
        self._moves: dict[tuple[str, str], int] = {}  # The moves of each attribute; one with many is restless.
        self._steps = 0
        self._constants = b""
        self._moving_written = b""
        self.structure, self.objects = self._surveyor.survey(self._layers, None)
        self._lay_out()

    def parts(self) -> tuple[Part, ...]:
        """The captured attributes, layer by layer."""
        saved = {"cell", "array", "foreign", "generator", "rest", "constant", "member", "object", "same", "trusted"}

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
        """Raise NotCapturedError, naming the attributes, if there are any that cannot be saved."""
        slotted = [f"{name}.{slot} (in __slots__)" for name, one in self.objects.items() for slot in slots_of(one)]
        if slotted:
            raise NotCapturedError(
                f"{subject} cannot be saved exactly because of {', '.join(slotted)}: only attributes in __dict__ "
                "are captured"
            )
        unknown = [key for key, one in self.structure.category_of().items() if one.category == "unknown"]
        if unknown:
            raise NotCapturedError(
                f"{subject} cannot be saved exactly because of {named(unknown, self.structure, self.objects)}. {self._choices}"
            )
        if self._pickler is not None and self._trusted:
            self._pickler.ensure_loads(self._values_trusted(), self._elsewhere())

    # --- after a step

    def pack(self) -> None:
        """Write the present attributes of the objects into the arena.

        Raises NotCapturedError if an attribute now has a value that cannot be captured.
        """
        self._steps = steps = self._steps + 1
        packer = self._packer
        if not packer.pack(steps):
            self._refresh()
        elif (not self._moving_rest or self._write_rest()) and self._trusted:
            self._write_blob(TRUSTED, self._pickled())
        # Also after a refresh: in a run that was loaded there may be no refresh at this step.
        if self._constant_names and steps % CONSTANT_CHECK_STEPS == 0:
            self._check_constants()

    def survey_and_pack(self) -> None:
        """Survey all objects again, and write their attributes into the arena. Raises NotCapturedError."""
        self._steps += 1
        self._refresh()

    def _write_rest(self) -> bool:
        """Write the blob of all other values. Return False if a refresh was needed, which also wrote everything."""
        packer = self._packer
        try:
            # All together: one by one they would seem equal if only a shared object has changed.
            moving = self._encoded(self._moving_rest)
            if moving == self._moving_written:
                return True
            encoded = self._encoded(self._rest)
        except (TypeError, KeyError):
            self._refresh()
            return False
        self._write_blob(REST, encoded)
        if self._packer is packer:  # A new packer may expect different attributes to move.
            self._moving_written = moving
        return True

    def _write_blob(self, name: str, content: bytes) -> None:
        if self._blobs.get(name) != content:
            self.state.set_blob(name, content)
            self._blobs[name] = content
            if self.state.arena is not self._packer.arena:
                self._make_packer()  # The blob has grown, and the arena with it.

    # --- when an attribute is of a different kind than before

    def _refresh(self) -> None:
        """Survey all objects again. Raises NotCapturedError."""
        replaced = self._count_moves()
        structure, self.objects = self._surveyor.survey(self._layers, self._learn(replaced))
        if structure.encode() == self.structure.encode():
            self.structure = structure
            self._find_all()
            self._make_packer()
            self._write_everything()
            return
        self._refuse_new_unknowns(structure)
        changed = self._changed_constants(replaced)
        if changed:  # Otherwise the new arena would treat the changed values as the original ones.
            structure, self.objects = self._surveyor.survey(self._layers, self._learn(replaced | changed))
        self.structure = structure
        self._lay_out()

    def _refuse_new_unknowns(self, structure: Structure) -> None:
        before = self.structure.category_of()
        now = structure.category_of().items()
        new = [key for key, attribute in now if attribute.category == "unknown" and before.get(key) != attribute]
        if new:
            raise NotCapturedError(
                f"{named(new, structure, self.objects)} appeared in a step and cannot be saved. {self._choices}"
            )

    def _count_moves(self) -> set[tuple[str, str]]:
        """Count the moves of attributes, and return the replaced large containers. Raises NotCapturedError."""
        replaced = set()
        for key, attribute in self.structure.category_of().items():
            before = self._packer.before.get(key, self)
            if before is self or vars(self.objects[key[0]]).get(key[1], self) is before:
                continue
            self._moves[key] = self._moves.get(key, 0) + 1
            if attribute.category == "constant":
                replaced.add(key)
            if attribute.category == "fixed":
                raise NotCapturedError(
                    f"{key[0]}.{key[1]} ({attribute.detail}) was replaced in a step: a value of this type is not saved"
                )
        return replaced

    def _learn(self, moved: set[tuple[str, str]]) -> Structure:
        """The present structure, with these attributes moved to the rest."""
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
        """Find the large containers that changed in place, and warn the user of each. Raises NotCapturedError."""
        names = {full: key for full, key in self._constant_names.items() if key not in replaced}
        try:
            if not replaced and self._encoded_constants() == self._constants:
                return set()
            now = {full: encode_value(vars(self.objects[layer])[name]) for full, (layer, name) in names.items()}
        except NotPlainError as error:
            raise NotCapturedError(
                f"{error}, inside a value that was assumed to be constant. {self._choices}"
            ) from None
        before = decode_value(self._constants) if names else {}
        moved = {names[full] for full, encoded in now.items() if encoded != encode_value(before[full])}
        for layer, name in sorted(moved):
            warnings.warn(
                f"{layer}.{name} was assumed to be constant and has changed in the last {CONSTANT_CHECK_STEPS} steps: "
                "it is saved at each step from now on; a seek into these steps may not be exact",
                CapturedWarning,
                stacklevel=4,
            )
        return moved

    # --- laying out

    def _lay_out(self) -> None:
        """Make an arena for the structure and write all values into it."""
        hot: list[Field | Blob] = [Field(STEPS_FIELD, "i8", hot=True)]
        entries: list[Field | Blob] = []
        cells = 0
        for layer in self.structure.layers:
            for attribute in layer.attributes:
                name = field_name(layer.name, attribute.name)
                if attribute.category == "cell":
                    entries.append(Field(name, f"{attribute.detail}8"))
                    cells += 1
                elif attribute.category == "array":
                    array = array_field(name, *attribute.detail)
                    size_bytes = math.prod(array.shape) * array.dtype.itemsize
                    hot.append(attrs.evolve(array, hot=is_hot(size_bytes)))
                elif attribute.category == "foreign":
                    entries += foreign_fields(name, vars(self.objects[layer.name])[attribute.name])
                elif attribute.category == "generator":
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
        """Find the values that are written as bytes."""
        self._rest: list[tuple[str, dict[str, Any], str]] = []
        self._members: dict[str, type] = {}
        self._outside_rest: list[tuple[str, dict[str, Any], str]] = []
        self._trusted: list[tuple[str, dict[str, Any], str]] = []
        self._constant_names: dict[str, tuple[str, str]] = {}
        for layer in self.structure.layers:
            attributes = vars(self.objects[layer.name])
            for attribute in layer.attributes:
                full = f"{layer.name}.{attribute.name}"
                if attribute.category in ("rest", "member"):
                    self._rest.append((full, attributes, attribute.name))
                    if attribute.category == "member":
                        self._members[full] = type(attributes[attribute.name])
                elif attribute.category == "constant":
                    self._constant_names[full] = (layer.name, attribute.name)
                elif attribute.category == "trusted":
                    self._trusted.append((full, attributes, attribute.name))
                if attribute.category in ("array", "generator", "constant"):
                    self._outside_rest.append((full, attributes, attribute.name))

    def _make_packer(self) -> None:
        self._packer = StepPacker(self.state, self.structure, self.objects, self._is_restless, self._detached)
        self._moving_rest = [entry for entry in self._rest if entry[0] in self._packer.moving_rest]
        self._moving_written = b""  # With a new packer everything is written: the previous bytes do not count.

    def _is_restless(self, key: tuple[str, str], attribute: Attribute) -> bool:
        """Return True if an attribute is checked alone at each step; one in the rest then writes all of the rest."""
        if attribute.category not in ("cell", "rest", "member") or attribute.detail == NEVER_SET:
            return False  # A change of these attributes changes the structure.
        return self._moves.get(key, 0) >= (MOVES_OF_CELLS if attribute.category == "cell" else MOVES_OF_REST)

    def _write_everything(self) -> None:
        written = self._packer.pack_all(self._steps)
        assert written  # The packer was made from the present objects.
        self._write_blob(REST, self._encoded(self._rest))
        if self._trusted:
            self._write_blob(TRUSTED, self._pickled())

    # --- as bytes

    def _known(self) -> dict[str, Any]:
        """Arrays, generators and large containers, which are kept outside the rest, by name."""
        return {full: attributes[name] for full, attributes, name in self._outside_rest}

    def _encoded(self, entries: Sequence[tuple[str, dict[str, Any], str]]) -> bytes:
        """These entries of the rest as bytes."""
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
        """The objects that are not pickled, since they exist already when a pickle is loaded."""
        return self._known() | {full: attributes[name] for full, attributes, name in self._rest} | self.objects

    def _pickled(self) -> bytes:
        assert self._pickler is not None
        known = {id(one): name for name, one in self._elsewhere().items()}
        return self._pickler.dump(self._values_trusted(), known)

    # --- after a load

    def unpack(self) -> None:
        """Restore the objects from the arena.

        Raises NotCapturedError if they are not of the kind that was saved, ValueError for an arena of anything else.
        """
        state = self.state
        self.structure, self.objects = restore_objects(
            state, self._layers, self._surveyor, self._constants, self._pickler, self._detached
        )
        surveyed, objects = self._surveyor.survey(self._layers, self.structure)
        if surveyed.encode() == self.structure.encode():  # With the attributes that are watched but not written.
            self.structure, self.objects = surveyed, objects
        self._steps = int(state[STEPS_FIELD])
        self._constants = state.blob(CONSTANTS)
        self._blobs = {name: state.blob(name) for name in (STRUCTURE, REST, CONSTANTS)}
        self._find_all()
        self._make_packer()
