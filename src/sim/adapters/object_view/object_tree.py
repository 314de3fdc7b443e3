"""All values of captured objects in a state, by their paths from the recorded object: ``units[14].hp``.

An object that is reached in several ways has the shortest path; of several, that through a list comes before that
through an attribute, a dict or a set. Elsewhere its path stands for it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from sim.adapters.capture.captured_state import CONSTANTS, STRUCTURE
from sim.adapters.capture.graph.groups import STRUCTURE as GRAPH
from sim.adapters.capture.pack import KINDS_FIELD, STEPS_FIELD
from sim.adapters.capture.survey import KINDS, Attribute, field_name, structure_from_plain
from sim.adapters.capture.values import decode_state, decode_value
from sim.adapters.object_view.graph_reader import GraphReader
from sim.adapters.object_view.shown_values import (
    NOT_KNOWN,
    SET_STEP,
    Composite,
    Ref,
    ShownPart,
    Word,
    attributes,
    last_name,
)
from sim.adapters.object_view.value_text import count_text, is_nested, leaf_text, shortened
from sim.kernel.state import Snapshot

WIDTH = 110  # Of a line, about.
WHOLE_WIDTH = 1_000_000  # Of a line where all items were asked for.
FIRST = 3  # Items that are shown of a list that does not fit into its line.
LINES = 40  # Of all attributes, about.
_TEXT_DTYPE = re.compile(r"[<>|=][SU]\d{1,9}")
GRAPH_PREFIX = "graph."


class ObjectTree:
    """The values of captured objects in a state.

    Attributes:
        outermost: the objects that no other one holds as an attribute of its own, by their names.
        entries: the attributes of the outermost objects; their steps are their paths.
        fields: the names of the state's fields that are shown as values of the tree.
    """

    def __init__(self, state: Snapshot) -> None:
        """Raises ValueError or LookupError for a state of anything but captured objects."""
        self._state = state
        self._layers = {layer.name: layer for layer in structure_from_plain(decode_value(state.blob(STRUCTURE))).layers}
        inner = {f"{layer}.{one.name}" for layer, one in self._attributes() if one.category == "object"}
        outermost = [name for name in self._layers if name not in inner]
        self.outermost = {name: Ref(self, name) for name in outermost}
        self.prefix = f"{outermost[0]}." if len(outermost) == 1 else ""
        self._arrays = self._read_arrays()
        self._graph = GraphReader(state, self._known)
        self._constants = self._read_constants()
        self._values = self._read_values()
        self.entries = [
            ShownPart(f"{name}{entry.step}".removeprefix(self.prefix), "", entry.value)
            for name in outermost
            for entry in self.composite(name).entries
        ]
        own = {field_name(layer, one.name) for layer, one in self._attributes()}
        hidden = {STEPS_FIELD, KINDS_FIELD, STRUCTURE, CONSTANTS}
        self.fields = {name for name in state if name in own | hidden or name.startswith(GRAPH_PREFIX)}
        self._paths: dict[Ref, str] = {ref: name for name, ref in self.outermost.items()}
        self._other_paths: dict[Ref, str] = {}  # Of objects that are reached in several ways, the second path.
        self._refs: dict[str, Ref] = {}  # What was found at each path so far.
        self._queue: deque[tuple[str, Any]] = deque((entry.step, entry.value) for entry in self.entries)
        # The next level: items of lists, attributes, values of dicts, which are often a second way to an object, sets.
        self._deeper: tuple[list[tuple[str, Any]], ...] = ([], [], [], [])

    def composite(self, number: str) -> Composite:
        """The object of a layer."""
        layer = self._layers[number]
        names = [one.name for one in layer.attributes if (number, one.name) in self._values]
        return attributes(self._class_of(number), names, [self._values[number, name] for name in names])

    def _class_of(self, name: str) -> str:
        holder, _, attribute = name.rpartition(".")
        found = (
            [one for one in self._layers[holder].attributes if one.name == attribute] if holder in self._layers else []
        )
        return last_name(str(found[0].detail)) if found else last_name(name)

    def _attributes(self) -> Iterator[tuple[str, Attribute]]:
        return ((layer.name, one) for layer in self._layers.values() for one in layer.attributes)

    def _known(self, name: str) -> Any:
        """The value of an object that the graph refers to and does not hold."""
        if name in self._layers:
            return Ref(self, name)
        return Word(name.removeprefix(self.prefix), value=self._arrays.get(name, NOT_KNOWN))

    def _read_arrays(self) -> dict[str, Any]:
        """The arrays with fields of their own, by the names under which the graph refers to them."""
        arrays = {}
        for layer, one in self._attributes():
            field = field_name(layer, one.name)
            if one.category == "array":
                is_text = _TEXT_DTYPE.fullmatch(str(one.detail[0])) is not None
                array = self._state[field].view(one.detail[0])[..., 0] if is_text else self._state[field]
                arrays[f"{layer}.{one.name}"] = array
            elif one.category == "foreign" and field in self._state.layout.slots:
                arrays[f"{layer}.{one.name}"] = self._state[field]
        return arrays

    def _read_constants(self) -> list[Any]:
        content = self._state.blob(CONSTANTS)
        if not content:
            return []
        return GraphReader(decode_state(content), self._known).roots()

    def _read_values(self) -> dict[tuple[str, str], Any]:
        """The value of each saved attribute, by the names of its layer and of itself."""
        state, values = self._state, {}
        kinds, rest, constants = iter(state[KINDS_FIELD].tolist()), iter(self._graph.roots()), iter(self._constants)
        for layer, one in self._attributes():
            field, key = field_name(layer, one.name), (layer, one.name)
            match one.category:
                case "cell":
                    kind = KINDS[_next(kinds)]
                    values[key] = None if kind is type(None) else kind(state[field][()].item())
                case "array":
                    values[key] = self._arrays[f"{layer}.{one.name}"]
                case "generator":
                    words = state[field].tobytes() if field in state.layout.slots else b""
                    values[key] = Word(f"numpy.random.Generator({_kind_of_generator(one.detail)})", words)
                case "foreign":
                    values[key] = self._arrays.get(f"{layer}.{one.name}", Word("array of another library"))
                case "rest":
                    values[key] = _next(rest)
                case "constant":
                    values[key] = _next(constants)
                case "object":
                    values[key] = Ref(self, f"{layer}.{one.name}")
                case "same":
                    values[key] = self._known(one.detail)
        return values

    # --- paths

    def path_of(self, ref: Ref) -> str | None:
        """The path of an object; None if it cannot be reached."""
        self._search(ref)
        return self._paths.get(ref)

    def other_path_of(self, ref: Ref) -> str | None:
        """The path of a second way to an object, if there is one."""
        self._search(None)
        return self._other_paths.get(ref)

    def object_at(self, path: str) -> Ref | None:
        """The object at a path; None if there is none, or a value that is not an object of its own."""
        self._search(None)
        return self._refs.get(path)

    def _search(self, ref: Ref | None) -> None:
        """Find paths, until that of an object is known; for None all."""
        while (ref is None or ref not in self._paths) and (self._queue or any(self._deeper)):
            if not self._queue:
                self._queue.extend(chain.from_iterable(self._deeper))
                self._deeper = ([], [], [], [])
            path, value = self._queue.popleft()
            if isinstance(value, Ref):
                self._refs[path] = value
                if value in self._paths:
                    if SET_STEP not in path:  # The elements of a set have no places that could be compared.
                        self._other_paths.setdefault(value, path)
                    continue
                self._paths[value] = path
                value = value.source.composite(value.number)
            if isinstance(value, Composite):
                deeper = self._deeper[3 if value.is_set else 2 if value.is_dict else int(not value.is_list)]
                deeper += [
                    (f"{path}{entry.step}", entry.value)
                    for entry in value.entries
                    if isinstance(entry.value, Ref | Composite)
                ]

    def path_of_cell(self, field: str, index: int) -> str | None:
        """The path of the value at a row of a field of the graph; None for a field of anything else."""
        owner = self._graph.owner_of_cell(field, index)
        if owner is None:
            return None
        number, place = owner
        if number == self._graph.root_number():
            full = [f"{layer}.{one.name}" for layer, one in self._attributes() if one.category == "rest"]
            return full[place].removeprefix(self.prefix) if place < len(full) else None
        path = self.path_of(Ref(self._graph, number))
        entries = self._graph.composite(number).entries
        # Of a dict, the keys are cells before those of the values.
        index_in = place - len(entries) if place >= len(entries) else place
        return None if path is None else f"{path}{entries[index_in].step if index_in < len(entries) else ''}"

    def find(self, path: str) -> tuple[str, Any] | None:
        """The value at a path, with its path; None if there is none. The name of the outermost object may precede it."""
        path = path.removeprefix(self.prefix)
        composite, done = Composite("", "", "", self.entries), ""
        while True:
            rest = path[len(done) :]
            entry = next((one for one in composite.entries if _begins_with(rest, one.step)), None)
            if entry is None:
                return None
            done += entry.step
            if done == path:
                return done, entry.value
            value = entry.value.source.composite(entry.value.number) if isinstance(entry.value, Ref) else entry.value
            if not isinstance(value, Composite):
                return None
            composite = value

    def fields_of(self, path: str) -> list[str]:
        """The fields of the state that hold the value at a path, or the value that it is a part of; none if that is not known."""
        path, done = path.removeprefix(self.prefix), ""
        entries: Sequence[ShownPart] = self.entries
        own = [(name, one) for name in self.outermost for one in self._saved(name)]
        number: Any = None  # Of the node of the graph that has the entries.
        while True:
            rest = path[len(done) :]
            place = next((place for place, one in enumerate(entries) if _begins_with(rest, one.step)), None)
            if place is None:
                return []
            value = entries[place].value
            done += entries[place].step
            found = self._own_fields(*own[place]) if number is None else self._graph.fields_of(number, place)
            if done == path or not isinstance(value, Ref) or self._graph.is_special(value.number):
                return found
            if value.source is not self and value.source is not self._graph:
                return []  # It is a constant.
            number = value.number if value.source is self._graph else None
            own = [(value.number, one) for one in self._saved(value.number)] if number is None else []
            entries = value.source.composite(value.number).entries

    def _saved(self, layer: str) -> list[Attribute]:
        return [one for one in self._layers[layer].attributes if (layer, one.name) in self._values]

    def _own_fields(self, layer: str, attribute: Attribute) -> list[str]:
        """Those of an attribute of a layer."""
        if attribute.category in ("object", "same", "constant"):
            return []
        if attribute.category != "rest":
            return [field_name(layer, attribute.name)]
        rest = [(name, one.name) for name, one in self._attributes() if one.category == "rest"]
        return self._graph.fields_of(self._graph.root_number(), rest.index((layer, attribute.name)))

    def origin_of(self, ref: Ref) -> str:
        """A word for the part of the state that numbers an object: two numbers are comparable within one of them."""
        if ref.source is self._graph:
            return "graph"
        return "layer" if ref.source is self else "constant"

    def graph_object(self, like: Ref) -> Ref | None:
        """The object that has the number of one in the graph of another state; None if there is none."""
        found = Ref(self._graph, like.number)
        return found if self._graph.has(like.number) else None

    # --- text

    def lines(self, *, whole: bool = False) -> Iterator[str]:
        """The attributes, a line each, with the first parts of those that do not fit. whole: all of them and all parts."""
        count = 0
        for number, entry in enumerate(self.entries):
            if count >= LINES and not whole:
                yield f"… {len(self.entries) - number:,} more attributes: --all"
                return
            for line in self._lines_of(entry.step, entry.value, whole=whole, width=WHOLE_WIDTH if whole else WIDTH):
                count += 1
                yield line

    def summary(self) -> dict[str, str]:
        """Each attribute in one line, by its path."""
        return {
            entry.step: shortened(entry.value, entry.step, self.elsewhere_than, WIDTH - len(entry.step))[0]
            for entry in self.entries
        }

    def plain(self, path: str, value: Any) -> Any:
        """The value at a path as numbers, texts, arrays, lists and dicts; of an object that is elsewhere its path."""
        if isinstance(value, Ref):
            elsewhere = self.elsewhere_than(value, path)
            if elsewhere is not None:
                return elsewhere
            value = value.source.composite(value.number)
        if not isinstance(value, Composite):
            return leaf_text(value) if isinstance(value, Word) else value
        parts = [self.plain(f"{path}{entry.step}", entry.value) for entry in value.entries]
        if value.is_list and not value.is_dict:
            return parts
        if not any(entry.label for entry in value.entries):
            return parts[0] if parts else f"{value.title}{value.opening}{value.closing}"
        return {_key_of(entry): part for entry, part in zip(value.entries, parts, strict=True)}

    def lines_at(self, path: str, value: Any, *, whole: bool, uncut: bool = False) -> Iterator[str]:
        """The value at a path, and each of its parts in a line.

        whole: all items of a list, not only the first ones. uncut: the lines are as long as their values need.
        """
        yield from self._lines_of(path, value, whole=whole, opens=True, width=WHOLE_WIDTH if uncut else WIDTH)

    def _lines_of(self, path: str, value: Any, *, whole: bool, width: int, opens: bool = False) -> Iterator[str]:
        text, is_whole = shortened(value, path, self.elsewhere_than, WIDTH - len(path))
        opened = self.opened_at(path, value)
        if opened is None or not opened.entries or (is_whole and not opens) or not (opens or is_nested(opened)):
            yield f"{path} = {shortened(value, path, self.elsewhere_than, width - len(path))[0]}"
            return
        yield f"{path} = {count_text(opened) if opened.is_list and not is_whole else text}"
        count = len(opened.entries)
        shown = count if whole or not opened.is_list else min(count, FIRST)
        for entry in opened.entries[:shown]:
            inner = f"{path}{entry.step}"
            yield f"  {inner} = {shortened(entry.value, inner, self.elsewhere_than, width - 2 - len(inner))[0]}"
        if shown < count:
            yield f"  … {count - shown:,} more: --all, or --field '{path}'"

    def opened_at(self, path: str, value: Any) -> Composite | None:
        """What is at a path, if it has parts and is not shown elsewhere."""
        if isinstance(value, Ref):
            value = value.source.composite(value.number) if self.elsewhere_than(value, path) is None else None
        return value if isinstance(value, Composite) else None

    def elsewhere_than(self, ref: Ref, path: str) -> str | None:
        """The path of an object if it is another one than this."""
        found = self.path_of(ref)
        return None if found is None or found == path else found


def _next(values: Iterator[Any]) -> Any:
    try:
        return next(values)
    except StopIteration:
        raise ValueError("expected a value for each attribute of the structure, got fewer") from None


def _key_of(entry: ShownPart) -> str:
    """The name of an attribute, or the key of a dict: a text without its quotes."""
    text = entry.label.rstrip("=: ")
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text


def _begins_with(path: str, step: str) -> bool:
    return path.startswith(step) and path[len(step) : len(step) + 1] in ("", ".", "[")


def tree_of(state: Snapshot) -> ObjectTree | None:
    """The tree of a state of captured objects; None for any other state. Raises ValueError or LookupError."""
    is_captured = {STRUCTURE, CONSTANTS, KINDS_FIELD, STEPS_FIELD, GRAPH} <= set(state)
    return ObjectTree(state) if is_captured else None


def _kind_of_generator(detail: Any) -> str:
    return str(detail[0] if isinstance(detail, list) and detail else detail)  # Older tapes name the kind alone.
