"""Turn states, inputs and numbers into text and JSON for people and other programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from recorder.visible_text import visible
from sim.kernel.registry import Config, World
from sim.kernel.state import Snapshot

JSON_LEVELS_MAX = 64  # A tape may nest plain data a thousand levels deep: more than the json module accepts.
_LEFT_OUT = "…"


def to_json(value: Any, levels: int = JSON_LEVELS_MAX) -> Any:
    """Convert value for the json module: arrays become nested lists, bytes become hexadecimal text.

    levels: levels of nesting to keep; deeper values become "…".
    """
    if isinstance(value, dict | list | tuple) and not levels:
        return _LEFT_OUT
    if isinstance(value, dict):
        return {str(key): to_json(inner, levels - 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(inner, levels - 1) for inner in value]
    if isinstance(value, np.clongdouble):
        return [float(value.real), float(value.imag)]
    if isinstance(value, np.longdouble):
        return float(value)  # Its tolist returns a longdouble again.
    if isinstance(value, np.ndarray | np.generic):
        return to_json(value.tolist(), JSON_LEVELS_MAX)  # At most 32 axes.
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, complex):
        return [value.real, value.imag]
    return value


def readable_inputs(inputs: Any) -> Any:
    """The inputs of a tick, where they are calls of a plain object with the arguments that these had."""
    if isinstance(inputs, dict) and any(isinstance(value, bytes) for value in inputs.values()):
        from sim.adapters.object_view.shown_calls import shown_inputs  # noqa: PLC0415 - few tapes have such calls

        return shown_inputs(inputs)
    return inputs


def inputs_to_json(inputs: Any) -> Any:
    """Convert readable_inputs as to_json does."""
    return to_json(readable_inputs(inputs))


def plain_text(text: str) -> str:
    """One line of text for people: what would steer a terminal is escaped, and a line end becomes a space."""
    return visible(text).replace("\n", " ")


def tick_range(first: int, last: int) -> str:
    """Format a range of ticks: "tick 7" or "ticks 7 to 1,200"."""
    return f"tick {first:,}" if first == last else f"ticks {first:,} to {last:,}"


def field_summary(snapshot: Snapshot, name: str) -> dict[str, Any]:
    """Dtype, shape and figures of a field: its only value, or min, max and sum (integers) or mean (floats)."""
    array = snapshot[name]
    summary: dict[str, Any] = {"dtype": array.dtype.name, "shape": list(array.shape)}
    if array.size == 1:
        summary["value"] = array.reshape(())[()].item()
    elif array.size and array.dtype.kind in "biu":
        exact = array.astype(object) if array.dtype.itemsize == 8 else array.astype(np.int64)  # Sums beyond 64 bits.
        summary |= {"min": array.min().item(), "max": array.max().item(), "sum": int(exact.sum())}
    elif array.size and array.dtype.kind == "f":
        summary |= {"min": array.min().item(), "max": array.max().item(), "mean": array.mean().item()}
    return summary


def state_summary(snapshot: Snapshot, world: World | None, config: Config) -> dict[str, str]:
    """The figures that the world selects for a summary; without a world, one line per field."""
    if world is not None:
        return dict(world.summarize(config, snapshot))
    return {name: describe_field(snapshot, name) for name in snapshot}


def describe_field(snapshot: Snapshot, name: str) -> str:
    """One line about a field: shape, dtype and range of values."""
    summary = field_summary(snapshot, name)
    shape = " × ".join(map(str, summary["shape"])) or "one"
    figures = ", ".join(
        f"{key} {_number(summary[key])}" for key in ("value", "min", "max", "sum", "mean") if key in summary
    )
    return f"{shape} {summary['dtype']}" + (f": {figures}" if figures else "")


def _number(value: Any) -> str:
    return (
        f"{value:,}"
        if isinstance(value, int) and not isinstance(value, bool)
        else f"{value:.6g}"
        if isinstance(value, float)
        else str(value)
    )


def field_lines(array: np.ndarray[Any, Any], *, whole: bool) -> list[str]:
    """The values of a field as lines of text.

    whole: False shortens a large field to its first and last values and their number.
    """
    if whole or array.size <= _FEW_VALUES:
        return np.array2string(array, threshold=max(array.size, 1) + 1).split("\n")
    lines = np.array2string(array, threshold=_FEW_VALUES, edgeitems=3).split("\n")
    return [*lines, f"({' × '.join(f'{size:,}' for size in array.shape)} values; --all shows every one)"]


_FEW_VALUES = 24  # A field of up to this size is always printed in full.


def picture(field: np.ndarray[Any, Any], width: int) -> list[str]:
    """Draw a map as lines of text, darker where values are larger.

    field: (height, width) numbers, row 0 on top; or colours, (height, width, 3 or 4) uint8, of which the brightness is drawn.
    width: characters in a line, at most; each character shows the mean of a block of cells. A character is about twice as
    high as wide, and a block has twice as many rows as columns. A mean that is not finite is "?".
    """
    shades = " ░▒▓█"
    cells = field[..., :3] @ BRIGHTNESS if field.ndim == COLOUR_AXES else field
    height_cells, width_cells = cells.shape
    step = max(1, -(-width_cells // width))
    rows = range(0, height_cells, 2 * step)
    columns = range(0, width_cells, step)
    with np.errstate(invalid="ignore", over="ignore"):
        means = np.array([[cells[y : y + 2 * step, x : x + step].mean() for x in columns] for y in rows], np.float64)
    known = np.isfinite(means)
    low, high = means.min(where=known, initial=np.inf), means.max(where=known, initial=-np.inf)
    scale = (len(shades) - 1) / (high - low) if high > low else 0.0
    levels = np.ceil(np.where(known, means - (low if known.any() else 0.0), 0.0) * scale).astype(int)
    return [
        "".join(shades[level] if is_known else "?" for level, is_known in zip(line, of_line, strict=True))
        for line, of_line in zip(levels, known, strict=True)
    ]


BRIGHTNESS = np.array([0.299, 0.587, 0.114])  # Of red, green and blue, as the eye weighs them (ITU-R BT.601).
COLOUR_AXES = 3


def colour_picture(colours: np.ndarray[Any, Any], width: int) -> list[str]:
    """Draw a picture as lines for a terminal with 24-bit colours: each character shows two blocks, one above the other.

    colours: (height, width, 3 or 4) uint8, row 0 on top; the fourth, how opaque a pixel is, is not shown. width: characters
    in a line, at most; a block is a square of pixels in their mean colour.
    """
    height_pixels, width_pixels = colours.shape[:2]
    step = max(1, -(-width_pixels // width))

    def block(y: int, x: int) -> str:
        red, green, blue = np.rint(colours[y : y + step, x : x + step, :3].mean(axis=(0, 1))).astype(int)
        return f"{red};{green};{blue}"

    lines = []
    for y in range(0, height_pixels, 2 * step):
        has_lower = y + step < height_pixels
        cells = [
            f"\x1b[38;2;{block(y, x)}{f';48;2;{block(y + step, x)}' if has_lower else ''}m▀"
            for x in range(0, width_pixels, step)
        ]
        lines.append("".join(cells) + "\x1b[0m")
    return lines
