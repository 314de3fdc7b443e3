"""The features of a LeRobotDataset: their names, dtypes and shapes, and the Arrow arrays that hold their values.

    observation.state          a single observation         action, action.NAME       likewise
    observation.NAME           a part of the observation, by its path
    observation.image(s.NAME)  RGB pixels as uint8: PNG, which is without loss. All others are numbers.
    next.reward, next.done, next.terminated, next.truncated    what the step returned
    timestamp, frame_index, episode_index, index, task_index   LeRobot's own

Invariant: numbers keep their dtype, and files hold them as LeRobot's own writer does.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs
import numpy as np
import pyarrow as pa
from PIL import Image

from replayer.datasets.request import ExtractionError
from replayer.datasets.rows.columns import Array
from replayer.datasets.transitions.column_forms import ColumnForm
from replayer.datasets.transitions.transition_rows import DONE, ENDS, OBSERVED, THEN, WORTH

TIMESTAMP, FRAME, EPISODE_INDEX, INDEX, TASK_INDEX = "timestamp", "frame_index", "episode_index", "index", "task_index"
ENDED = "next.done"
IMAGE_TYPE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
AXES_MAX = 5  # Of the arrays that the library datasets has types for.
_PIXELS = 3
_FIELD_HINT = "leave it out (--field with the names of others)"


@attrs.frozen
class Feature:
    """A feature.

    Attributes:
        name: in the data set. column: of the transitions; "" for those that are computed.
        dtype: NumPy's name. shape: of a value. kind: number or image.
    """

    name: str
    column: str
    dtype: str
    shape: tuple[int, ...] = ()
    kind: Literal["number", "image"] = "number"

    @property
    def is_channels_first(self) -> bool:
        """True for pixels whose first axis is the color, which files have last."""
        return self.kind == "image" and self.shape[-1] != _PIXELS

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """The shape in files. A single number has one axis of 1, and so has an array of one number."""
        if self.is_channels_first:
            return (*self.shape[1:], self.shape[0])
        return self.shape or (1,)

    @property
    def is_scalar(self) -> bool:
        """True if files hold a number, and no list."""
        return self.stored_shape == (1,)

    def plain(self) -> dict[str, Any]:
        """The entry of meta/info.json."""
        is_image = self.kind == "image"
        names = ["height", "width", "channels"] if is_image else None
        return {"dtype": "image" if is_image else self.dtype, "shape": list(self.stored_shape), "names": names}

    @property
    def huggingface(self) -> dict[str, Any]:
        """The type as the library datasets describes it in files."""
        value = {"dtype": self.dtype, "_type": "Value"}
        if self.kind == "image":
            return {"_type": "Image"}
        if self.is_scalar:
            return value
        if len(self.shape) == 1:
            return {"feature": value, "length": self.shape[0], "_type": "List"}
        return {"shape": list(self.shape), "dtype": self.dtype, "_type": f"Array{len(self.shape)}D"}

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of the column."""
        if self.kind == "image":
            return IMAGE_TYPE
        value = pa.from_numpy_dtype(self.dtype)
        if self.is_scalar:
            return value
        if len(self.shape) == 1:
            return pa.list_(value, self.shape[0])
        for _ in self.shape:
            value = pa.list_(value)
        return value

    @property
    def field(self) -> pa.Field:
        """The Arrow field of the column."""
        if self.kind == "image" or len(self.shape) < 2:
            return pa.field(self.name, self.type)
        class_name = f"datasets.features.features.Array{len(self.shape)}DExtensionType"
        about = json.dumps([list(self.shape), self.dtype])
        return pa.field(
            self.name,
            self.type,
            metadata={"ARROW:extension:name": class_name, "ARROW:extension:metadata": about},
        )

    def to_arrow(self, values: Array) -> pa.Array:
        """The values of some rows, (rows, *shape), as an Arrow array."""
        if self.kind == "image":
            return pa.array([{"bytes": one, "path": None} for one in map(_png, self.pixels(values))], IMAGE_TYPE)
        array = pa.array(np.ascontiguousarray(values).reshape(-1), pa.from_numpy_dtype(self.dtype))
        if self.is_scalar:
            return array
        if len(self.shape) == 1:
            return pa.FixedSizeListArray.from_arrays(array, self.shape[0])
        for size in reversed(self.shape):
            offsets = np.arange(0, len(array) + 1, size, dtype=np.int32)
            array = pa.ListArray.from_arrays(pa.array(offsets), array)
        return array

    def pixels(self, values: Array) -> Array:
        """Images with the color as the last axis."""
        return np.moveaxis(values, 1, -1) if self.is_channels_first else values


def _png(pixels: Array) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(file, "PNG")
    return file.getvalue()


def features_of(forms: Mapping[str, ColumnForm], length_hints: Sequence[str]) -> list[Feature]:
    """The features that hold columns of transitions.

    length_hints: what the user may do if lengths differ. Raises ExtractionError for a column that LeRobot cannot hold.
    """
    features = []
    for column, form in forms.items():
        prefix, _, path = column.partition(".")
        if prefix != THEN:  # The next frame has it. LeRobot has no place for that of the last one.
            _ensure_held(column, form, length_hints)
            features.append(_feature(prefix, path, column, form))
    features += [Feature(f"next.{name}", name, "bool") for name in ENDS]
    names = [feature.name for feature in features]
    twice = next((one for one in features if names.count(one.name) > 1), None)
    if twice is not None:
        raise ExtractionError(
            f"two columns would be the feature {twice.name} of LeRobot: {_FIELD_HINT}, or use parquet"
        )
    return [
        *features,
        Feature(ENDED, "", "bool"),
        Feature(TIMESTAMP, "", "float32"),
        *(Feature(name, "", "int64") for name in (FRAME, EPISODE_INDEX, INDEX, TASK_INDEX)),
    ]


def _feature(prefix: str, path: str, column: str, form: ColumnForm) -> Feature:
    dtype = np.dtype(form.dtype).name
    if prefix == WORTH:
        return Feature(f"next.{column}", column, dtype, form.shape)
    if prefix == DONE:
        return Feature(column, column, dtype, form.shape)
    is_image = dtype == "uint8" and len(form.shape) == 3 and _PIXELS in (form.shape[0], form.shape[-1])
    if not is_image:
        return Feature(f"observation.{path or 'state'}", column, dtype, form.shape)
    name = "image" if not path else path if path.startswith("images.") else f"images.{path}"
    return Feature(f"observation.{name}", column, dtype, form.shape, "image")


def _ensure_held(column: str, form: ColumnForm, length_hints: Sequence[str]) -> None:
    """Raise ExtractionError if LeRobot cannot hold a column."""
    hints = [*(length_hints if form.kind == "list" else ()), "use parquet"]
    if column.startswith(f"{OBSERVED}."):
        hints.insert(0, _FIELD_HINT)
    fix = ", or ".join(hints)
    if form.kind != "array":
        raise ExtractionError(f"LeRobot holds numbers and arrays of one shape, and {column} is {form}: {fix}")
    if len(form.shape) > AXES_MAX:
        raise ExtractionError(f"LeRobot holds arrays of at most {AXES_MAX} axes, and {column} is {form}: {fix}")
    if "/" in column:
        raise ExtractionError(f"LeRobot cannot hold a feature with a slash in its name, such as {column}: {fix}")


def data_schema(features: Sequence[Feature]) -> pa.Schema:
    """The schema of the data files, with the types that the library datasets reads from it."""
    about = {"info": {"features": {feature.name: feature.huggingface for feature in features}}}
    return pa.schema([feature.field for feature in features], metadata={"huggingface": json.dumps(about)})
