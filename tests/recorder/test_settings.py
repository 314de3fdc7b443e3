"""Values of recording options: units, refused values, and the settings that a tape may contain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recorder import Recorder
from recorder.recording_options import RecordingOptions
from recorder.settings import KEEP_S_MAX, SPLIT_BYTES_MAX, TICKS_MAX

from small_worlds import Walkers


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ("1KB", 1000),
        ("1kB", 1000),
        ("1K", 1000),
        ("1k", 1000),
        ("1KiB", 1024),
        ("1MiB", 1 << 20),
        ("1mb", 10**6),
        ("2.5 GB", 2_500_000_000),
        ("3gib", 3 << 30),
        ("1TB", 10**12),
        ("1TiB", 1 << 40),
        ("7", 7),
        ("7B", 7),
        (7, 7),
        (np.int64(7), 7),
        ("1000TB", SPLIT_BYTES_MAX),
    ],
)
def test_sizes_have_units(size: Any, expected: int) -> None:
    """Multiples of 1000 and of 1024, in upper and lower case."""
    assert RecordingOptions(split=size).split_bytes == expected


@pytest.mark.parametrize(
    ("time", "seconds"),
    [("500ms", 0.5), ("60s", 60.0), ("5m", 300.0), ("5min", 300.0), ("1h", 3600.0), ("1.5 h", 5400)],
)
def test_times_have_units(time: str, seconds: float) -> None:
    """Rings and syncs take the same units."""
    assert RecordingOptions(keep=time).keep_s == seconds
    assert RecordingOptions(sync=time).sync_interval_s == seconds


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"keyframe_interval_ticks": "300"}, TypeError, "keyframe_interval_ticks='300': expected a whole number"),
    ({"keyframe_interval_ticks": 1.5}, TypeError, "keyframe_interval_ticks=1.5: expected a whole number"),
    ({"keyframe_interval_ticks": True}, TypeError, "keyframe_interval_ticks=True: expected a whole number"),
    (
        {"keyframe_interval_ticks": 0},
        ValueError,
        f"keyframe_interval_ticks=0: expected a whole number from 1 to {TICKS_MAX:,}",
    ),
    (
        {"keyframe_interval_ticks": 10**23},
        ValueError,
        f"keyframe_interval_ticks={10**23}: expected a whole number from 1 to {TICKS_MAX:,}",
    ),
    ({"full_every": None}, TypeError, "full_every=None: expected a whole number"),
    ({"full_every": 10**5000}, ValueError, f"full_every=1e5000: expected a whole number from 1 to {TICKS_MAX:,}"),
    ({"sync": 1}, TypeError, "sync=1: expected a time such as"),
    ({"sync": "0s"}, ValueError, "sync='0s': expected a time above zero and up to a day"),
    ({"sync": "25h"}, ValueError, "sync='25h': expected a time above zero and up to a day"),
    ({"sync": "9" * 400 + "s"}, ValueError, "sync='999"),
    ({"keep": 10**5000}, ValueError, f"keep=1e5000: expected at most {TICKS_MAX:,} ticks"),
    ({"keep": "9" * 5000}, ValueError, f"9': expected at most {TICKS_MAX:,} ticks"),
    ({"keep": f"{KEEP_S_MAX + 1}s"}, ValueError, "expected at most ten years"),
    ({"keep": 1.5}, TypeError, "keep=1.5: expected a number of ticks"),
    ({"keep": "٣"}, ValueError, "keep='٣': expected a number of ticks"),
    ({"split": "99999999999999999999999MB"}, ValueError, "split='99999999999999999999999MB': expected at most 1000TB"),
    ({"split": "9" * 400}, ValueError, "expected at most 1000TB"),
    ({"split": 0}, ValueError, "split=0: expected a size such as"),
    ({"split": "0.5"}, ValueError, "split='0.5': expected a size such as"),
    ({"split": [1]}, TypeError, "split=[1]: expected a size such as"),
    ({"deterministic": "no"}, TypeError, "deterministic='no': expected True or False"),
    ({"notes": [1]}, TypeError, "notes=[1]: expected a mapping of names to plain data"),
    ({"notes": "text"}, TypeError, "notes='text': expected a mapping"),
    ({"run_id": "abc"}, TypeError, "run_id='abc': expected 16 bytes"),
    ({"run_id": b"abc"}, ValueError, "run_id=b'abc': expected 16 bytes"),
]


@pytest.mark.parametrize(("argument", "error", "text"), BAD)
def test_a_recorder_names_the_refused_argument(
    tmp_path: Path, argument: dict[str, Any], error: type[Exception], text: str
) -> None:
    """The message is one short line, and no file is made."""
    with pytest.raises(error) as caught:
        Recorder(tmp_path / "run.tape", Walkers(), **argument)
    assert text in str(caught.value)
    assert len(str(caught.value)) < 200
    assert list(tmp_path.iterdir()) == []


def test_path_and_simulation_in_the_wrong_order_are_reported(tmp_path: Path) -> None:
    """The message states which one comes first."""
    with pytest.raises(TypeError, match=r"path=Walkers: .*the path comes first, then the simulation"):
        Recorder(Walkers(), tmp_path / "run.tape")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="path=3: expected a file name"):
        Recorder(3, Walkers())  # type: ignore[arg-type]


OF_A_TAPE: list[tuple[dict[str, Any], type[Exception]]] = [
    ({"keyframe_interval_ticks": 0}, ValueError),
    ({"keyframe_interval_ticks": True}, TypeError),
    ({"full_every": -1}, ValueError),
    ({"durability": []}, ValueError),
    ({"sync_interval_s": "a"}, TypeError),
    ({"sync_interval_s": float("nan")}, ValueError),
    ({"sync_each_block": 1}, TypeError),
    ({"on_error": "x"}, ValueError),
    ({"keep_ticks": "a"}, TypeError),
    ({"keep_s": -1.0}, ValueError),
    ({"split_bytes": 1 << 70}, ValueError),
    ({"deterministic": None}, TypeError),
    ({"hashes": "auto"}, ValueError),
    ({"seek_budget_ms": 0}, ValueError),
    ({"more": 1}, KeyError),
]


@pytest.mark.parametrize(("change", "error"), OF_A_TAPE)
def test_settings_of_a_tape_are_checked_like_a_users(change: dict[str, Any], error: type[Exception]) -> None:
    """Settings that a program writes into META are read back; others are refused, and the message names them."""
    options = RecordingOptions(keep="60s", split=2000, hashes="states", seek_budget_ms=12.5)
    good = options.to_meta()
    assert RecordingOptions.from_meta({"settings": good}) == options
    with pytest.raises(error) as caught:
        RecordingOptions.from_meta({"settings": good | change})
    assert next(iter(change)) in str(caught.value)
