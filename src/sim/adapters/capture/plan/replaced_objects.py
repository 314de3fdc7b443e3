"""Objects with fields of their own that a step replaced by others of the same form, such as the grid of a new episode.

The layout stays as it is: only the objects that are looked at are others. To survey all objects again, and to plan all
writes again, costs ten times as much.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any

from sim.adapters.capture.survey import Attribute, Layer, Structure, Surveyor
from sim.adapters.interface.adapter_registry import NotCapturedError
from sim.kernel.memory.quick_dicts import make_quick

_SIMPLE = ("cell", "rest", "kept", "clock", "drawing")  # What says nothing of other attributes.
_GONE = object()


def replaced_objects(
    structure: Structure,
    objects: Mapping[str, Any],
    before: Mapping[tuple[str, str], Any],
    surveyor: Surveyor,
    is_node: Callable[[tuple[str, str]], bool],
) -> dict[str, Any]:
    """The new objects, by the names of their layers; none if a survey could find anything else in the structure.

    before: the values of attributes whose replacement matters, by layer and attribute. is_node: true for an attribute
    whose value is an object of the graph.
    """
    found: dict[str, Any] = {}
    replaced = set()
    for (layer, name), value in before.items():
        now = vars(objects[layer]).get(name, _GONE)
        if now is not value:
            full = f"{layer}.{name}"
            if value is not objects.get(full) or type(now) is not type(value) or is_node((layer, name)):
                return {}
            found[full] = now
            replaced.add((layer, name))
    if not found:
        return {}
    for one in found.values():
        make_quick(vars(one))
    everything = [id(one) for one in objects.values()] + [id(one) for one in found.values()]
    if len(set(everything)) < len(everything):
        return {}
    if not all(_holds_alike(layer, found[layer.name], surveyor) for layer in structure.layers if layer.name in found):
        return {}
    for layer, one in _references(structure, found):
        if one.category == "same" and one.detail in found:
            return {}
        if (layer, one.name) in replaced and not surveyor.is_as_before(objects[layer], layer, one):
            return {}
    return found


def _references(structure: Structure, new: Container[str]) -> list[tuple[str, Attribute]]:
    """The attributes of layers that are not new, with their layers: those that refer to a layer."""
    return [
        (layer.name, one)
        for layer in structure.layers
        if layer.name not in new
        for one in layer.attributes
        if one.category in ("object", "same")
    ]


def _holds_alike(layer: Layer, holder: Any, surveyor: Surveyor) -> bool:
    """Return True if a survey would describe a new object as it did the one before."""
    names = sorted(vars(holder))
    return names == [one.name for one in layer.attributes] and all(
        one.category in _SIMPLE and surveyor.is_as_before(holder, layer.name, one) for one in layer.attributes
    )


def replaced_containers(
    structure: Structure,
    objects: Mapping[str, Any],
    before: Mapping[tuple[str, str], Any],
    is_node: Callable[[tuple[str, str]], bool],
) -> set[tuple[str, str]]:
    """The containers and objects that were replaced and have no layer of their own. Raises NotCapturedError."""
    replaced = set()
    for key, attribute in structure.category_of().items():
        value = before.get(key, _GONE)
        if value is _GONE or vars(objects[key[0]]).get(key[1], _GONE) is value:
            continue
        if attribute.category == "constant" or (attribute.category in ("object", "same") and is_node(key)):
            replaced.add(key)
        if attribute.category == "fixed":
            raise NotCapturedError(
                f"{key[0]}.{key[1]} ({attribute.detail}) was replaced in a step: a value of this type is not saved"
            )
    return replaced
