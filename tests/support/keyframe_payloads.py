"""Payloads of keyframes in one piece, as tests compare and damage them."""

from __future__ import annotations

from recorder.format.blocks.delta_keyframe import delta_payload
from recorder.format.blocks.full_keyframe import Changes, full_payload
from sim.kernel.state import Snapshot


def encode_full(tick: int, state_hash: int, snapshot: Snapshot) -> memoryview:
    """The payload of a full keyframe."""
    return full_payload(tick, state_hash, snapshot).joined()


def encode_delta(tick: int, state_hash: int, changes: Changes, baseline: Snapshot) -> memoryview:
    """The payload of a delta keyframe; spends the changes, as delta_payload does."""
    return delta_payload(tick, state_hash, changes, baseline).joined()
