"""Find arrays that lie in the memory of each other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from recorder.ambient.replacement.named_values import Path


def memory_of(array: np.ndarray[Any, Any]) -> tuple[int, int]:
    """The first address of an array's elements, and the one after the last."""
    start = array.__array_interface__["data"][0]
    if array.size == 0:
        return start, start
    low = high = start
    for size, stride in zip(array.shape, array.strides, strict=True):
        if stride < 0:
            low += (size - 1) * stride
        else:
            high += (size - 1) * stride
    return low, high + array.itemsize


def shared_memory(arrays: Iterable[tuple[int, int, Path]]) -> dict[Path, Path]:
    """By path, the path of a different array whose memory an array lies in. arrays: memory_of each, and its path."""
    shared = {}
    top_high, top_path = 0, None
    for low, high, path in sorted(arrays, key=lambda entry: (entry[0], -entry[1])):
        if low < top_high and top_path is not None:
            shared[path] = top_path
        if high > top_high:
            top_high, top_path = high, path
    return shared
