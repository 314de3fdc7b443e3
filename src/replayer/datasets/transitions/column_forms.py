"""The forms of the columns of transitions: found in values, merged over all of them, and kept by each value.

Invariant: a value is put into its column without loss, or refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np

from replayer.datasets.request import ExtractionError
from replayer.datasets.transitions.flat_values import (
    NUMBER_SPACES,
    FlatValue,
    Kind,
    Space,
    joined,
    json_text,
    number_form,
)


@attrs.frozen
class ColumnForm:
    """The form of a column. Every value may be missing.

    Attributes:
        kind: see FlatValue. dtype: NumPy's text, of arrays and lists.
        shape: of an array; of an item of a list.
    """

    kind: Kind
    dtype: str = ""
    shape: tuple[int, ...] = ()

    def __str__(self) -> str:
        numbers = f"{self.dtype} {self.shape}" if self.shape else self.dtype
        return {"array": numbers, "list": f"lists of {numbers}", "json": "JSON text"}.get(self.kind, self.kind)

    @property
    def is_empty(self) -> bool:
        """True if the values have no numbers, so that no file could hold them."""
        return 0 in self.shape


class MisfitError(ExtractionError):
    """A value does not fit the form that its column was given from the spaces and the first steps."""


def form_of(value: FlatValue) -> ColumnForm:
    """The form of one value."""
    if value.kind == "array":
        return ColumnForm("array", value.data.dtype.str, value.data.shape)
    if value.kind == "list":
        return ColumnForm("list", value.data.dtype.str, value.data.shape[1:])
    return ColumnForm(value.kind)


def forms_of_space(space: Space | None, path: str = "") -> dict[str, ColumnForm]:
    """The forms, by path, that the values of a space have as the space itself states it; empty if it is unknown."""
    match space:
        case {"type": "Dict", "spaces": list(inner)}:
            pairs = [(joined(path, key), one) for key, one in inner]
        case {"type": "Tuple", "spaces": list(inner)}:
            pairs = [(joined(path, index), one) for index, one in enumerate(inner)]
        case {"type": "OneOf", "spaces": list(inner)}:
            pairs = [(joined(path, index), one) for index, one in enumerate(inner)]
            choice = {joined(path, "choice"): ColumnForm("array", "<i8")}
            return choice | {key: form for at, one in pairs for key, form in forms_of_space(one, at).items()}
        case {"type": "Sequence", "feature": dict(feature)}:
            forms = forms_of_space(feature, path)
            return {key: _form_of_items(form) for key, form in forms.items()}
        case {"type": "Graph", "node": dict(node), "edge": edge}:
            forms = {joined(path, "nodes"): ColumnForm("list", *number_form(node))}
            if edge is not None:
                forms[joined(path, "edges")] = ColumnForm("list", *number_form(edge))
                forms[joined(path, "edge_links")] = ColumnForm("list", "<i4", (2,))
            return forms
        case {"type": "Text"}:
            return {path: ColumnForm("text")}
        case {"type": str(kind)} if space is not None and kind in NUMBER_SPACES:
            return {path: ColumnForm("array", *number_form(space))}
        case _:
            return {}
    return {key: form for at, one in pairs for key, form in forms_of_space(one, at).items()}


def _form_of_items(form: ColumnForm) -> ColumnForm:
    """The form of a column of sequences of such values."""
    if form.kind == "array":
        return attrs.evolve(form, kind="list")
    return ColumnForm("texts") if form.kind == "text" else ColumnForm("json")


def merged(one: ColumnForm, other: ColumnForm) -> ColumnForm | None:
    """The form that takes the values of both; None if there is none but JSON text."""
    if one == other:
        return one
    kinds = {one.kind, other.kind}
    if "json" in kinds:
        return ColumnForm("json")
    if kinds == {"array"} and one.shape == other.shape:
        return attrs.evolve(one, dtype=_common(one.dtype, other.dtype))
    if kinds <= {"array", "list"}:
        items = {form.shape if form.kind == "list" else form.shape[1:] for form in (one, other)}
        has_axis = all(form.kind == "list" or form.shape for form in (one, other))
        if len(items) == 1 and has_axis:  # Arrays whose lengths differ.
            return ColumnForm("list", _common(one.dtype, other.dtype), items.pop())
    return None


def _common(one: str, other: str) -> str:
    return str(np.result_type(np.dtype(one), np.dtype(other)).newbyteorder("<").str)


def fit(name: str, tick: int, value: FlatValue, form: ColumnForm) -> Any:
    """The data of a value for its column, without loss. Raises MisfitError."""
    if form.kind in ("text", "texts", "json") and value.kind == form.kind:
        return value.data
    if form.kind == "json":
        return json_text(value.data)
    if form.kind in ("array", "list") and value.kind in ("array", "list"):
        data: np.ndarray[Any, Any] = value.data
        shape = data.shape if form.kind == "array" else data.shape[1:]
        if shape == form.shape and (form.kind == "array" or data.ndim):
            if data.dtype.str == form.dtype:
                return data
            with np.errstate(all="ignore"):  # What does not fit is found by the way back.
                cast = data.astype(form.dtype)
                back = cast.astype(data.dtype)
            if np.array_equal(back, data, equal_nan=data.dtype.kind == "f"):
                return cast
    raise MisfitError(f"tick {tick:,}: {name} is {form_of(value)}, and {form} in the column")


def forms_to_plain(forms: Mapping[str, ColumnForm]) -> dict[str, dict[str, Any]]:
    """Forms as JSON objects."""
    return {name: {"kind": form.kind, "dtype": form.dtype, "shape": list(form.shape)} for name, form in forms.items()}


def forms_from_plain(plain: Mapping[str, Mapping[str, Any]]) -> dict[str, ColumnForm]:
    """Forms from JSON objects."""
    return {name: ColumnForm(form["kind"], form["dtype"], tuple(form["shape"])) for name, form in plain.items()}
