"""The types of a table's columns, as the dataset card names them for the library ``datasets``.

They are in the card, not in the files: ``datasets`` before version 4 cannot read files that name its newer types. Of
plain lists it finds the same types itself. Arrow's tensors it reads only with the card, as flat lists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

_NAMES = {"halffloat": "float16", "float": "float32", "double": "float64"}  # Where Arrow has names of its own.


def features_of(schema: pa.Schema, columns: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the features of a table as the card lists them. columns: of the table, from the manifest."""
    return [{"name": field.name, **_feature(field.type, _is_boolean(columns[field.name]))} for field in schema]


def _is_boolean(column: Mapping[str, Any]) -> bool:
    return "dtype" in column and column["dtype"] != "text" and np.dtype(column["dtype"]) == np.bool_


def _feature(kind: pa.DataType, is_boolean: bool) -> dict[str, Any]:  # noqa: FBT001 - private, and always given
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_fixed_size_list(kind):
        return {"list": _item(kind.value_type, is_boolean), "length": kind.list_size}
    if pa.types.is_list(kind):
        return {"list": _item(kind.value_type, is_boolean)}
    return {"dtype": "bool" if is_boolean else _NAMES.get(str(kind), str(kind))}  # Tensors of booleans are uint8.


def _item(kind: pa.DataType, is_boolean: bool) -> Any:  # noqa: FBT001 - private, and always given
    """The feature of the items of a list: of plain values only the name."""
    feature = _feature(kind, is_boolean)
    return feature.get("dtype", feature)
