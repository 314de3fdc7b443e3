"""The colours of maps in files: those of the page, see page/colours.js. A test compares the two."""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from replayer.view.states.frame_encoding import WHOLE_STEPS_MAX

STOPS = {
    "viridis": "44015448186a472d7b4240863b528b33638d2c728e26828e21918c1fa08828ae803fbc735ec96284d44baddc30d8e219fde725",
    "cividis": "00224e002e6a1a386f32436d434e6c535a6d61656f6f70737d7c788c88789b9476aba072bcae6ccdbb63dec958f0d846fee838",
    "inferno": "0000040b0724210c4a3d096557106e71196e8a226aa32c61bc3754d24644e45a31f1731df98e09fcac11f9cb35f2ea69fcffa4",
    "grey": "0000001313132525253c3c3c525252636363737373858585979797aaaaaabebebeccccccdadadae5e5e5f0f0f0f8f8f8ffffff",
}
POINT_COLOURS = ("#e69f00", "#56b4e9", "#cc79a7", "#f0e442", "#009e73", "#d55e00")
CATEGORIES = ("ee8866", "4477aa", "ee6677", "228833", "ccbb44", "66ccee", "aa3377", "bbbbbb")
NOT_FINITE = (255, 0, 255)
Colours = npt.NDArray[np.uint8]


@cache
def table(name: str) -> Colours:
    """256 colours, (256, 3), from the lowest value to the highest. Raises KeyError."""
    stops = np.frombuffer(bytes.fromhex(STOPS[name]), np.uint8).reshape(-1, 3).astype(np.float64)
    place = np.arange(256) / 255 * (len(stops) - 1)
    mixed = [np.interp(place, np.arange(len(stops)), stops[:, channel]) for channel in range(3)]
    return np.floor(np.stack(mixed, axis=1) + 0.5).astype(np.uint8)


def are_few(steps: int, shown: tuple[float, float]) -> bool:
    """Return True for a map of whole numbers whose scale has at most as many as there are colours of categories."""
    return steps <= WHOLE_STEPS_MAX and shown[1] - shown[0] < len(CATEGORIES)


def category(value: int) -> tuple[int, int, int]:
    """The colour of a whole number among few: the same in each run, whatever other numbers it has."""
    red, green, blue = bytes.fromhex(CATEGORIES[value % len(CATEGORIES)])
    return red, green, blue


def colours_of(
    name: str, steps: int, own: tuple[float, float], shown: tuple[float, float], ground: Colours, *, few: bool = False
) -> Colours:
    """The colour of each byte of an encoded map, (256, 3), as the page chooses it.

    steps: see frame_encoding. own: lowest and highest value of the map. shown: those of the scale. ground: the colour of
    nothing: of 0, if that is the lowest value of the map and of the scale, whose legend shows this colour. few: True for
    whole numbers that are categories, see are_few.
    """
    colours = np.zeros((256, 3), np.uint8)
    codes = np.arange(steps + 1)
    with np.errstate(over="ignore", invalid="ignore"):
        values = own[0] + codes / steps * (own[1] - own[0])
        share = (values - shown[0]) / ((shown[1] - shown[0]) or 1.0)
    place = np.clip(np.floor(np.nan_to_num(share) * 255), 0, 255).astype(np.int64)
    colours[: steps + 1] = [category(round(value)) for value in values] if few else table(name)[place]
    if own[0] == shown[0] == 0:
        colours[0] = ground
    if steps < 255:
        colours[255] = NOT_FINITE
    return colours
