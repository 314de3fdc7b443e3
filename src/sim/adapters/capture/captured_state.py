"""The attributes of foreign objects as a State: packed into an arena after each step, unpacked after a load.

This module makes the structure and the layout, at the start and whenever an attribute is of a different kind than
before. The work of each step is in pack.py.

Invariants:
    1. The arena is a function of the objects and of the previous arena, so that equal steps from equal states give
       equal hashes in every process.
    2. unpack(pack()) gives objects whose further steps are equal, if the structure has no unknown attribute.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from sim.adapters.capture.arguments.held_objects import HeldObjects
from sim.adapters.capture.constants import Constants
from sim.adapters.capture.foreign_fields import holders_of_bases, memories_of
from sim.adapters.capture.graph.differences import differences
from sim.adapters.capture.graph.hidden_bases import HiddenBases
from sim.adapters.capture.graph.names.classes import ClassFinder
from sim.adapters.capture.graph.object_graph import ObjectGraph, graph_entries
from sim.adapters.capture.graph.restored.trial_restore import is_restorable
from sim.adapters.capture.graph.unsavable import UnsavableError, ways_out
from sim.adapters.capture.graph.values.foreign_values import overlap, shared_memory
from sim.adapters.capture.known_objects import KnownObjects, Place, kept_values
from sim.adapters.capture.pack import KINDS_FIELD, MISFITS, STEPS_FIELD, StepPacker
from sim.adapters.capture.pickle_protocol import Pickler
from sim.adapters.capture.plan.arena_fields import room_for
from sim.adapters.capture.plan.fields_of_structure import fields_of
from sim.adapters.capture.plan.replaced_objects import replaced_containers, replaced_objects
from sim.adapters.capture.refused.refused_attributes import refused_attributes
from sim.adapters.capture.rng_state import parts_of_pcg
from sim.adapters.capture.survey import Classify, Surveyor, is_alike, slots_of, type_name
from sim.adapters.capture.unpack import releasable, restore_objects, with_rest
from sim.adapters.interface.adapter_registry import NotCapturedError
from sim.kernel.class_names import module_of
from sim.kernel.foreign_arrays import is_immutable_array
from sim.kernel.schema import Blob, Field, Schema
from sim.kernel.state import State

STRUCTURE, CONSTANTS = "structure", "constants"
_CLASS_IS_KEPT = "the class of the recorded object is not saved; keep what differs in attributes"
CONSTANT_CHECK_STEPS = 256  # What a compiled library or a package holds as constant is compared every 256 steps.

REPEATING = "choose level='inputs_only' (a seek repeats the inputs since the last reset)"


class CapturedWarning(UserWarning):
    """A value that was assumed to be constant has changed; the message states the consequence."""


class CapturedState:
    """The attributes of some objects, and of the objects inside them, in an arena.

    Attributes:
        state: the arena; replaced when the structure changes.
        structure: the category of each attribute.
        objects: by the names of their layers.
    """

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
        trusts it. ignored: full names of attributes that are neither saved nor restored. opens_objects: give objects of
        other classes fields of their own. otherwise: the last option in the message for a value that cannot be saved.

        Raises NotCapturedError for a value that pickle refuses.
        """
        self._layers, self._classes = list(layers), {name: type(holder) for name, holder in layers}
        self._ways_out = partial(ways_out, otherwise)
        self._pickler, self._detached, self._ignored = pickler, frozenset(detached), frozenset(ignored)
        own = (kind for kind in map(type, dict(layers).values()) if not module_of(kind).startswith("sim.adapters."))
        self._finder = ClassFinder([object, *own][-1])
        self._surveyor = Surveyor(
            classify, self._finder, ignored=self._ignored, detached=self._detached, opens_objects=opens_objects
        )
        self._bases = HiddenBases(lambda: holders_of_bases(self._elsewhere))
        self._surveyor.memory.find_earlier, self._surveyor.memory.find_faces = self._held_before, self._bases.faces
        self._steps, self._classify = 0, classify
        self._graph: Any = None  # An ObjectGraph from the first survey on.
        self._packer: Any = None  # A StepPacker.
        self._met_layers: dict[str, Any] = {}  # The objects of the last look for weak references to them.
        self._survey_first()

    def ensure_all_known(self, subject: str) -> None:
        """Raise NotCapturedError, naming the attributes, if there are any that cannot be saved."""
        slotted = [f"{name}.{slot} (in __slots__)" for name, one in self.objects.items() for slot in slots_of(one)]
        if slotted:
            why = f"{subject} cannot be saved exactly because of {', '.join(slotted)}"
            raise NotCapturedError(f"{why}: only attributes in __dict__ are captured")
        if self._surveyor.unknown:
            self._finder.registering(is_new=True)  # What comes after the first refused value was not looked at.
            make = partial(ObjectGraph, finder=self._finder, pickler=self._pickler, ignored=self._ignored)
            layers = (self.structure, self.objects)
            refused = refused_attributes(self._surveyor.unknown, *layers, make, self._known_names())
            why = f"{subject} cannot be saved exactly because of {', '.join(refused.values())}"
            raise NotCapturedError(f"{why}. {self._ways_out(*sorted(refused))}")
        known = {full: attributes[name] for full, attributes, name in self._elsewhere} | self._generator_parts
        known |= kept_values(self.structure, self.objects) | self.objects
        if self._graph.has_finalizers():
            return  # The user's __del__ would notice the end of the copies.
        if not is_restorable(self.state, self._make_graph, known, self._known_names, subject):
            raise NotCapturedError(f"{subject} would be restored to other values than it has. {self._ways_out()}")

    def _survey_first(self) -> None:
        """Survey all objects, and set those apart that cannot be saved."""
        self._finder.registering(is_new=True)
        while True:
            try:
                self.structure, self.objects = self._surveyor.survey(self._layers, None)
                self._lay_out()
            except UnsavableError as error:
                name, described = self._place_of(error)
                self._surveyor.unknown[name] = described
            else:
                break
        self._finder.registering(is_new=False)

    def _place_of(self, error: UnsavableError) -> tuple[str, str]:
        """The attribute of a layer, and the complete path, type and reason of a value in it."""
        name, inside = error.path, ""
        if name.startswith("["):  # From the roots of the graph.
            index, _, inside = name.removeprefix("[").partition("]")
            name = self._rest[int(index)][0]
        assert name, f"no path to a {type_name(error.value)}: {error}"
        return name, f"{name}{inside} ({type_name(error.value)}): {error.reason} ({error.advice})"

    # --- after a step

    def pack(self) -> None:
        """Write the present attributes of the objects into the arena.

        Raises NotCapturedError if an attribute now has a value that cannot be captured.
        """
        self._steps = steps = self._steps + 1
        packer = self._packer
        try:
            try:
                is_packed = packer.look(steps) or packer.settle(steps)
            except MISFITS:
                is_packed = False
            if not is_packed or packer.rest_has_moved or self._constant_names:
                self._pack_others(is_packed=is_packed)
        except UnsavableError as error:
            raise self._appeared(error) from None

    def _pack_others(self, *, is_packed: bool) -> None:
        """Capture what the packer leaves to others. is_packed: False if it could not write its part."""
        is_packed = is_packed or self._follow()
        if not is_packed or (self._packer.rest_has_moved and not self._pack_rest()):
            self._refresh()
        # Also after a refresh: in a run that was loaded there may be no refresh at this step.
        if self._constant_names:
            self._check_constants()

    def survey_and_pack(self) -> None:
        """Survey all objects again, and write their attributes into the arena. Raises NotCapturedError."""
        self._steps += 1
        try:
            self._refresh()
        except UnsavableError as error:
            raise self._appeared(error) from None

    def _appeared(self, error: UnsavableError) -> NotCapturedError:
        name, described = self._place_of(error)
        return NotCapturedError(f"what appeared in a step cannot be saved: {described}. {self._ways_out(name)}")

    def _pack_rest(self) -> bool:
        """Capture all other values. Return False if an attribute was removed. Raises NotCapturedError."""
        try:
            roots = [attributes[name] for _, attributes, name in self._rest]
        except KeyError:
            return False
        self._graph.capture(roots, self._known_names)
        self._ensure_apart()
        if self.state.arena is not self._packer.arena:
            self._make_packer()  # The graph has grown, and the arena with it.
        self._packer.rest_was_captured(roots, holds_nodes=not self._graph.holds_values_only)
        self._release()
        return True

    def _ensure_apart(self) -> None:
        """Raise UnsavableError if an attribute with a field shares memory with an array of another library elsewhere."""
        held = self._graph.special.foreign_memories.values()
        for full, attributes, name in self._elsewhere if held else ():
            if overlap(memories_of(attributes[name]), held):
                raise shared_memory(attributes[name], "an array in a container", full)

    def recapture_rest(self) -> list[str]:
        """Encode all other values again; return the paths of those that the arena did not have, which are repaired.

        Raises NotCapturedError.
        """
        if self._graph.is_forgotten:
            return []  # The step's own capture encoded everything.
        before = self.state.snapshot()
        try:
            self._graph.capture([attributes[name] for _, attributes, name in self._rest], self._known_names, whole=True)
        except UnsavableError as error:
            raise self._appeared(error) from None
        if self.state.arena is not self._packer.arena:
            self._make_packer()
        return [f"{self._rest[index][0]}{inside}" for index, inside in differences(self._graph, before)]

    # --- when an attribute is of a different kind than before

    def _follow(self) -> bool:
        """Write objects that replaced others of the same form. Return False if there are none, or more has changed."""
        objects = replaced_objects(self.structure, self.objects, self._packer.before, self._surveyor, self._is_node)
        if not objects:
            return False
        self._packer.follow(objects)
        self.objects = {**self.objects, **objects}
        if not self._packer.pack(self._steps):
            return False
        self._find_all()
        return True

    def _refresh(self) -> None:
        """Survey all objects again. Raises NotCapturedError."""
        for name, holder in self._layers:
            if type(holder) is not self._classes[name]:
                became = f"{name} was a {self._classes[name].__qualname__} and is a {type(holder).__qualname__} now"
                raise NotCapturedError(f"{became}: {_CLASS_IS_KEPT}")
        replaced = replaced_containers(self.structure, self.objects, self._packer.before, self._is_node)
        structure, self.objects = self._surveyor.survey(self._layers, with_rest(self.structure, replaced))
        if is_alike(structure, self.structure):
            self.structure = structure
            self._find_all()
            self._make_packer()
            self._write_everything()
            return
        changed = self._constants.changes(self.objects, self._shared()) - replaced
        if changed:  # Otherwise the new arena would treat the changed values as the original ones.
            structure, self.objects = self._surveyor.survey(self._layers, with_rest(self.structure, replaced | changed))
        self.structure = structure
        self._lay_out()

    def _held_before(self) -> Iterable[Any]:
        """What the last capture wrote and still holds: it is the same in a run that was loaded."""
        if self._packer is not None:
            yield from (*self._packer.arrays_before(), *self._graph.nodes.objects.values())
            yield from (*self.objects.values(), *self._met_layers.values())

    def _is_node(self, key: tuple[str, str]) -> bool:
        """Return True for an attribute that is no object of its own: it is None, or an object of the graph."""
        value = vars(self.objects[key[0]]).get(key[1])
        return not hasattr(value, "__dict__") or self._graph.nodes.node_at(id(value)) is not None

    def _check_constants(self) -> None:
        if self.constants_have_changed():
            shared = self._shared()
            moved = self._constants.changes(self.objects, shared)
            if moved or shared or not self._constants.accept(self.objects):
                self._move_to_rest(moved)

    def _move_to_rest(self, moved: set[tuple[str, str]]) -> None:
        self.structure, self.objects = self._surveyor.survey(self._layers, with_rest(self.structure, moved))
        self._lay_out()

    def constants_have_changed(self) -> bool:
        """Return True if a large container has changed since the last check, or another attribute leads into it."""
        return bool(self._shared()) or self._constants.have_changed(self.objects)

    def _shared(self) -> set[int]:
        """The objects that are in a large container and also elsewhere, by identity."""
        return self._constants.shared(self._graph.nodes.met, self._elsewhere)

    def _with_fields(self) -> Iterable[Any]:
        """The objects with fields of their own, as they are now."""
        return (*self.objects.values(), *(attributes.get(name) for _, attributes, name in self._elsewhere))

    # --- laying out

    def _lay_out(self) -> None:
        """Make an arena for the structure and write all values into it."""
        hot, entries, cells = fields_of(self.structure, self.objects)
        self._find_all()
        self._constants = Constants(self._finder, self.objects, self._constant_names)
        contents = {STRUCTURE: self.structure.encode(), CONSTANTS: self._constants.content}
        blobs = [Blob(name, room_for(content)) for name, content in contents.items()]
        steps, kinds = Field(STEPS_FIELD, "i8", hot=True), Field(KINDS_FIELD, "u1", (cells,))
        self.state = State(Schema(steps, *hot, *entries, kinds, *blobs, *graph_entries()))
        for name, content in contents.items():
            self.state.set_blob(name, content)
        before, self._graph = self._graph, self._make_graph(self.state)
        self._graph.replace(before)
        self._make_packer()
        self._write_everything()
        if shared := self._shared():
            self._move_to_rest(self._constants.changes(self.objects, shared))

    def _make_graph(self, state: State) -> ObjectGraph:
        """An empty graph over a state."""
        for layer in self.objects.values():
            for cls in type(layer).__mro__:  # An environment returns values of Gymnasium's classes, its base's package.
                self._finder.register(cls)
        graph = ObjectGraph(state, self._finder, pickler=self._pickler, ignored=self._ignored)
        graph.nodes.elsewhere = self._constants.addresses
        graph.special.bases = self._bases
        for layer in self.objects.values():
            graph.groups.global_names.update(self._finder.names_beside(type(layer)))
        return graph

    def _find_all(self) -> None:
        """Find the values that have no field of their own."""
        self._rest: list[Place] = []
        self._elsewhere: list[Place] = []
        self._generator_parts: dict[str, Any] = {}
        self._constant_names: dict[str, tuple[str, str]] = {}
        for layer in self.structure.layers:
            attributes = vars(self.objects[layer.name])
            for attribute in layer.attributes:
                full = f"{layer.name}.{attribute.name}"
                if attribute.category == "rest":
                    self._rest.append((full, attributes, attribute.name))
                elif attribute.category == "constant":
                    self._constant_names[full] = (layer.name, attribute.name)
                elif attribute.category == "generator":
                    self._generator_parts.update(parts_of_pcg(full, attributes[attribute.name]))
                is_held = attribute.category in ("array", "generator", "constant") or (
                    attribute.category == "foreign" and not is_immutable_array(attributes[attribute.name])
                )
                if is_held and layer.name not in self._detached:
                    self._elsewhere.append((full, attributes, attribute.name))
        self._known = KnownObjects(self.structure, self.objects, self._elsewhere, self._generator_parts)

    def _make_packer(self) -> None:
        self._bases.replaced = self._bases.find_written()
        others = (self._detached, self._surveyor.memory.is_own, self._packer)
        self._packer = StepPacker(self.state, self.structure, self.objects, *others)
        self._bases.find_written = self._packer.faces
        self.held = HeldObjects(self._graph, self._constants, self._with_fields)

    def _write_everything(self) -> None:
        written = self._packer.pack_all(self._steps)
        assert written  # The packer was made from the present objects.
        roots = [attributes[name] for _, attributes, name in self._rest]
        self._graph.capture(roots, self._known_names)
        self._ensure_apart()
        if self.state.arena is not self._packer.arena:
            self._make_packer()
        self._release()

    def _release(self) -> None:
        """Make objects with fields of their own nodes of the graph, if their end may be seen: it lets them go."""
        before, self._met_layers = self._met_layers, self.objects
        lets_go = self._graph.is_forgotten
        if len(self.objects) == len(self._layers) or (self.objects is before and not lets_go):
            return
        moved = releasable(self.structure, self.objects, before, self._classify, lets_go=lets_go)
        if moved:
            self._move_to_rest(moved)

    def _known_names(self) -> dict[int, str]:
        """The names of objects that the graph refers to and does not hold, by identity."""
        return self._known.names()

    # --- after a load

    def unpack(self) -> None:
        """Restore the objects from the arena.

        Raises NotCapturedError if they are not of the kind that was saved, ValueError for an arena of anything else.
        """
        state, graph = self.state, self._make_graph(self.state)
        content = state.blob(CONSTANTS)
        is_present = content == self._constants.content and not self.constants_have_changed()
        constants = self._constants.present if is_present else self._constants.values_in(content)
        self.structure, self.objects = restore_objects(
            state, self._layers, self._surveyor, constants, graph, self._detached
        )
        surveyed, objects = self._surveyor.survey(self._layers, self.structure)
        if is_alike(surveyed, self.structure):  # With the attributes that are watched but not written.
            self.structure, self.objects = surveyed, objects
        self._steps = int(state[STEPS_FIELD])
        self._find_all()
        self._graph.forget()
        self._graph = graph
        if not (is_present and self._constants.are_of(self._constant_names)):
            self._constants = Constants(self._finder, self.objects, self._constant_names)
        graph.nodes.elsewhere = self._constants.addresses
        graph.encoder.known = self._known_names()
        self._met_layers = self.objects
        self._make_packer()
