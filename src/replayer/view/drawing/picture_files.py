"""Write painted ticks into one file: PNG, GIF by Pillow, MP4 and WebM by ffmpeg."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from PIL import Image

GIF_STEP_MS = 10  # A GIF has its times in hundredths of a second,
GIF_LEAST_MS = 20  # and viewers show less than this as a tenth of a second.
VIDEO_OPTIONS = {
    ".mp4": ("libx264", ["-crf", "18", "-movflags", "+faststart"]),
    ".webm": ("libvpx-vp9", ["-crf", "24", "-b:v", "0", "-row-mt", "1", "-deadline", "realtime", "-cpu-used", "6"]),
}


def write_pictures(path: Path, suffix: str, pictures: Iterable[Image.Image], fps: float) -> None:
    """Write the pictures, all of one size. suffix: of the format; a PNG holds the first picture.

    Raises ImportError if the package for videos is not installed, OSError if the file cannot be written, ValueError
    without a picture.
    """
    found = iter(pictures)
    first = next(found, None)
    if first is None:
        raise ValueError("expected at least one picture")
    if suffix == ".png":
        first.save(path, "PNG")
    elif suffix == ".gif":
        _write_gif(path, chain([first], found), fps)
    else:
        _write_video(path, suffix, first, found, fps)


def gif_frame_ms(fps: float) -> int:
    """The duration of a picture in a GIF, which cannot have any."""
    return max(GIF_LEAST_MS, round(1000 / fps / GIF_STEP_MS) * GIF_STEP_MS)


def _write_gif(path: Path, pictures: Iterator[Image.Image], fps: float) -> None:
    reduced = (picture.quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE) for picture in pictures)
    first = next(reduced)
    first.save(path, "GIF", save_all=True, append_images=reduced, duration=gif_frame_ms(fps), loop=0, optimize=False)


def _write_video(path: Path, suffix: str, first: Image.Image, others: Iterator[Image.Image], fps: float) -> None:
    import imageio_ffmpeg  # noqa: PLC0415 - a program of some 30 MB, which pictures do not need

    codec, options = VIDEO_OPTIONS[suffix]
    video = imageio_ffmpeg.write_frames(
        str(path), first.size, fps=fps, codec=codec, quality=None, macro_block_size=2, ffmpeg_log_level="error",
        output_params=[*options, "-f", suffix.removeprefix(".")],
    )  # fmt: skip
    video.send(None)
    try:
        for picture in chain([first], others):
            video.send(picture.tobytes())
    except BaseException:
        video.close()
        raise
    video.close()
