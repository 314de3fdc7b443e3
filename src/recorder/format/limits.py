"""The limits of the format. A writer never exceeds them, and a reader refuses larger values.

Each is checked before memory is allocated. Raising a limit is a compatible change of the format, lowering one is not.
"""

FRAMES_RAW_BYTES = (
    64 * 1024
)  # A FRAMES block is cut here; larger ones compress hardly better, smaller ones cost more to write.
PIECE_RAW_BYTES = 1 << 20  # A keyframe is cut into pieces of this size, so that damage costs one piece.
INPUT_BYTES_MAX = 16 << 20  # The encoded inputs of one tick.
BLOCK_RAW_BYTES_MAX = (
    INPUT_BYTES_MAX + 16 * 1024 + 64
)  # A frame of the largest size, alone in its block, with hashes of all fields.
EVENTS_RAW_BYTES = 256 * 1024  # An EVENTS block is cut here: few ticks wait for it, and damage costs few ticks.
EVENTS_BYTES_MAX = 4 << 20  # The encoded events of one tick.
EVENTS_PAYLOAD_BYTES_MAX = EVENTS_RAW_BYTES + EVENTS_BYTES_MAX + 64  # Pieces beyond that are not joined.
AUX_RAW_BYTES = 1 << 20  # An AUX block is cut here; the sections of a single tick may take more.
AUX_BYTES_MAX = 64 << 20  # The encoded sections of one tick.
AUX_PAYLOAD_BYTES_MAX = AUX_RAW_BYTES + 2 * AUX_BYTES_MAX + (1 << 20)  # Pieces beyond that are not joined.
CHANGES_RAW_BYTES = 1 << 20  # A CHANGES block is cut here; the changes of a single tick may take more.
BLOCK_TICKS_MAX = 16 * 1024  # More than the frames that fit into a block: a frame takes at least twenty bytes.
KEYFRAME_RAW_BYTES_MAX = 1 << 36  # A state of 64 GiB; pieces beyond that are not joined.
VALUE_DIGEST_BYTES = (8, 64)  # The shortest and the longest digest of the values at a keyframe.
META_BYTES_MAX = 1 << 20  # The META payload, and the outcome of a run; END holds both.
META_EXTRA_BYTES = 2048  # Added to META by a further segment, a later session or a repair.
INDEX_BLOCKS = 4096  # An INDEX block is written after this many blocks.
WHOLE_MAX = (1 << 63) - 1  # The largest whole number in META and on a command line, a seed's included.

assert FRAMES_RAW_BYTES // BLOCK_TICKS_MAX < 20
assert 2 * META_BYTES_MAX + 4096 <= BLOCK_RAW_BYTES_MAX, "END holds both"
assert EVENTS_PAYLOAD_BYTES_MAX <= BLOCK_RAW_BYTES_MAX
assert PIECE_RAW_BYTES <= BLOCK_RAW_BYTES_MAX < 1 << 32, "lengths are stored in 32 bits"
