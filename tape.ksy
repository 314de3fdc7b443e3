meta:
  id: tape
  title: A file of a tape, a recording of a deterministic simulation
  file-extension:
    - tape
    - journal
  ks-version: 0.9
  endian: le
doc: |
  One segment of a tape, or the journal next to it; formats 0.1 and 0.2. SPEC.md describes both in full.

  Two things cannot be expressed here and are left to the caller. Checksums (all CRC-32C) are not checked. A block that
  is compressed (codec lz4) keeps its stored bytes: decompress them as one LZ4 block without size prefix to raw_bytes
  bytes, and parse these with the type of the block's kind. meta, drop and end are `plain`, frames is `frames`, index is
  `index`, events is `events`, aux is `aux`, full and delta are `keyframe`. Concatenate the pieces of one payload before that.
doc-ref: SPEC.md
seq:
  - id: magic
    size: 8
  - id: segment
    type: segment
    if: magic == [0x89, 0x54, 0x41, 0x50, 0x0d, 0x0a, 0x1a, 0x0a]
  - id: journal
    type: journal
    if: magic == [0x89, 0x54, 0x41, 0x4a, 0x0d, 0x0a, 0x1a, 0x0a]
types:
  segment:
    seq:
      - id: header
        type: file_header
      - id: later_header
        size: header.header_size - 64
        doc: Bytes that a later version may have put after the header.
      - id: items
        type: item
        repeat: eos
  file_header:
    doc: Bytes 8 to 63 of a segment.
    seq:
      - id: major
        type: u2
      - id: minor
        type: u2
      - id: header_size
        type: u4
        doc: Offset of the first block.
        valid:
          min: 64
          max: 4096
      - id: incompatible
        type: u4
        doc: A reader must refuse the tape if a bit is set that the reader does not know.
      - id: compatible
        type: u4
      - id: run_id
        size: 16
      - id: marker
        size: 8
        doc: Repeated in every block and trailer of this segment.
      - id: segment
        type: u4
        doc: Number of the segment; 0 in format 0.1.
      - id: first_seq
        type: u8
        doc: Of the first block in this file; 0 in format 0.1.
      - id: crc32c
        type: u4
        doc: Of bytes 0 to 59 of the file.
  item:
    doc: A block, a trailer, or bytes that are neither.
    seq:
      - id: start_is_known
        size: 0
        if: start >= 0
        doc: Empty. It makes the parser evaluate the instance `start` before anything is read.
      - id: block
        type: block
        if: is_block
      - id: trailer
        type: trailer
        if: is_trailer
      - id: rest
        size-eos: true
        if: not is_block and not is_trailer
        doc: |
          Zeros of a preallocated file, an end that was torn by a crash, or damage. After damage, search for the next
          intact block.
    instances:
      start:
        value: _io.pos
      bytes_left:
        value: _io.size - start
      tag:
        pos: start
        size: 4
      stored_bytes:
        pos: start + 52
        type: u4
      is_block:
        value: >-
          bytes_left >= 72 and tag == [0xf5, 0x42, 0x4c, 0x4b]
          and bytes_left >= 72 + stored_bytes + (8 - stored_bytes % 8) % 8
      is_trailer:
        value: bytes_left >= 24 and tag == [0xf5, 0x45, 0x4e, 0x44]
  block:
    seq:
      - id: tag
        contents: [0xf5, BLK]
      - id: crc32c
        type: u4
        doc: Of the 64 bytes after it.
      - id: marker
        size: 8
      - id: seq_number
        type: u8
      - id: offset
        type: u8
        doc: Offset of this block in its file. A block with a different offset does not count.
      - id: durable
        type: u8
        doc: Number of bytes of the file that were on stable storage when the block was made.
      - id: first_tick
        type: u8
      - id: tick_count
        type: u4
      - id: stored_bytes
        type: u4
      - id: raw_bytes
        type: u4
      - id: payload_crc
        type: u4
        doc: CRC-32C of payload and padding.
      - id: kind
        type: u1
        enum: kind
      - id: codec
        type: u1
        enum: codec
      - id: flags
        type: u2
      - id: baseline
        type: u4
        doc: Of a delta, seq_number minus that of the first block of the full keyframe that it is based on.
      - id: payload
        size: stored_bytes
        type:
          switch-on: 'is_plainly_stored ? kind : kind::never'
          cases:
            'kind::meta': plain
            'kind::frames': frames
            'kind::full': keyframe
            'kind::delta': keyframe
            'kind::end': plain
            'kind::drop': plain
            'kind::index': index
            'kind::events': events
            'kind::aux': aux
            'kind::changes': changes
            'kind::writes': plain
      - id: padding
        size: (8 - stored_bytes % 8) % 8
    instances:
      is_rebuilt:
        value: (flags & 1) != 0
      is_session_start:
        value: (flags & 2) != 0
      continues:
        value: (flags & 4) != 0
        doc: The payload continues in the next block.
      is_continuation:
        value: (flags & 8) != 0
        doc: The payload began in an earlier block.
      is_plainly_stored:
        value: codec == codec::none and (flags & 12) == 0
        doc: Neither compressed nor a piece of a payload. Only such a payload can be parsed in place.
  trailer:
    seq:
      - id: tag
        contents: [0xf5, END]
      - id: crc32c
        type: u4
        doc: Of the 16 bytes after it.
      - id: marker
        size: 8
      - id: end_offset
        type: u8
        doc: Of the END block.
  frames:
    seq:
      - id: frames
        type: frame
        repeat: eos
  frame:
    seq:
      - id: mark
        type: u1
        doc: 0x93, a MessagePack array of three; later versions may have more elements.
        valid:
          min: 0x93
          max: 0x9f
      - id: tick_mark
        contents: [0xcf]
      - id: tick
        type: u8be
      - id: proof
        type: plain
        doc: The hash of the state, a u64 in 9 bytes, or a chained hash, binary of 8 bytes.
      - id: inputs
        type: plain
      - id: later_elements
        type: plain
        repeat: expr
        repeat-expr: mark - 0x93
  keyframe:
    seq:
      - id: head_bytes
        type: u4
      - id: head
        size: head_bytes
        type: plain
      - id: bodies
        size-eos: true
        doc: Of the sections that the head lists, back to back.
  index:
    seq:
      - id: head_bytes
        type: u4
      - id: head
        size: head_bytes
        type: plain
      - {id: offsets, type: u8, repeat: expr, repeat-expr: count}
      - {id: first_ticks, type: u8, repeat: expr, repeat-expr: count}
      - {id: tick_counts, type: u4, repeat: expr, repeat-expr: count}
      - {id: seq_numbers, type: u8, repeat: expr, repeat-expr: count}
      - {id: baselines, type: u4, repeat: expr, repeat-expr: count}
      - {id: kinds, type: u1, enum: kind, repeat: expr, repeat-expr: count}
      - {id: flags, type: u2, repeat: expr, repeat-expr: count}
    instances:
      count:
        value: (_io.size - 4 - head_bytes) / 35
        doc: As in the head; an entry takes 35 bytes.
  events:
    seq:
      - id: ticks
        type: plain
        doc: An array of two, the first tick that the block covers and the number of these ticks.
      - id: found
        type: plain
        repeat: eos
        doc: For each tick with events an array of two, the tick and the array of its events.
  aux:
    seq:
      - id: ticks
        type: plain
        doc: An array of three, the first tick that the block covers, the number of these ticks, and whole.
      - id: found
        type: plain
        repeat: eos
        doc: For each tick that changed a section an array of three, the tick, the map of sections and the array of gone ones.
  changes:
    seq:
      - id: head_bytes
        type: u4
      - id: head
        type: plain
        size: head_bytes
        doc: A map with first_tick, tick_count, layout and sections.
      - id: bodies
        size-eos: true
        doc: Of each section the counts, the numbers and the words, each transposed.
  plain:
    doc: A value of plain data, that is MessagePack with two extension types.
    seq:
      - id: mark
        type: u1
        doc: It contains small integers, lengths and counts; nil is 0xc0, false 0xc2, true 0xc3.
      - id: later_size
        type:
          switch-on: mark
          cases: {
            0xc4: u1, 0xc7: u1, 0xd9: u1, 0xc5: u2be, 0xc8: u2be,
            0xda: u2be, 0xdc: u2be, 0xde: u2be, 0xc6: u4be, 0xc9: u4be,
            0xdb: u4be, 0xdd: u4be, 0xdf: u4be,
          }
      - id: unsigned
        type:
          switch-on: mark
          cases: {0xcc: u1, 0xcd: u2be, 0xce: u4be, 0xcf: u8be}
      - id: signed
        type:
          switch-on: mark
          cases: {0xd0: s1, 0xd1: s2be, 0xd2: s4be, 0xd3: s8be}
      - id: floating
        type:
          switch-on: mark
          cases: {0xca: f4be, 0xcb: f8be}
      - id: extension
        type: u1
        enum: extension
        if: is_extension
      - id: content
        size: size
        if: is_string or is_binary or is_extension
      - id: items
        type: plain
        repeat: expr
        repeat-expr: 'is_map ? 2 * size : size'
        if: is_array or is_map
        doc: Of a map, keys and values in turn.
    instances:
      is_small_integer:
        value: mark < 0x80 or mark >= 0xe0
      small_integer:
        value: 'mark < 0x80 ? mark : mark - 0x100'
        if: is_small_integer
      is_map:
        value: (mark & 0xf0) == 0x80 or mark == 0xde or mark == 0xdf
      is_array:
        value: (mark & 0xf0) == 0x90 or mark == 0xdc or mark == 0xdd
      is_string:
        value: (mark & 0xe0) == 0xa0 or (mark >= 0xd9 and mark <= 0xdb)
      is_binary:
        value: mark >= 0xc4 and mark <= 0xc6
      is_extension:
        value: (mark >= 0xc7 and mark <= 0xc9) or (mark >= 0xd4 and mark <= 0xd8)
      size:
        value: >-
          mark < 0xa0 ? (mark & 0x0f) : mark < 0xc0 ? (mark & 0x1f)
          : mark >= 0xd4 and mark <= 0xd8 ? (1 << (mark - 0xd4)) : later_size
        doc: Bytes of content, items of an array, pairs of a map.
        if: is_string or is_binary or is_extension or is_array or is_map
  journal:
    doc: Bytes of a journal after its magic.
    seq:
      - id: major
        type: u2
      - id: minor
        type: u2
      - id: reserved
        type: u4
      - id: area_bytes
        type: u8
      - id: run_id
        size: 16
      - id: more_reserved
        size: 20
      - id: crc32c
        type: u4
        doc: Of bytes 0 to 59 of the file.
      - id: areas
        size: area_bytes
        type: area
        repeat: expr
        repeat-expr: 2
  area:
    seq:
      - id: generation
        type: u8
        doc: 0 if the area was never used. The area with the higher generation holds the later frames.
      - id: crc32c
        type: u4
        doc: Of the journal's run_id and generation. If it is wrong, the area is empty.
      - id: reserved
        type: u4
      - id: records
        type: record
        repeat: until
        repeat-until: not _.is_whole or _io.size - _io.pos < 8
        doc: |
          The first record with a wrong crc32c, or that is cut off, and all records after it are left from an earlier
          use of the area.
        if: _io.size >= 24
  record:
    seq:
      - id: size
        type: u4
      - id: crc32c
        type: u4
        doc: Of the journal's run_id, the area's generation and the frame.
      - id: frame_bytes
        size: size
        if: is_whole
        doc: Check crc32c, then parse it with the type frame.
    instances:
      is_whole:
        value: size > 0 and size <= bytes_left
      bytes_left:
        value: _io.size - _io.pos
enums:
  kind:
    0:
      id: never
      doc: Preallocated files are full of zeros.
    1:
      id: meta
      doc: How the recording was made.
    2:
      id: frames
      doc: Inputs and state hashes of consecutive ticks.
    3:
      id: full
      doc: A complete state.
    4:
      id: delta
      doc: A state as difference from a full one.
    5:
      id: end
      doc: The seal.
    6:
      id: drop
      doc: Ticks whose frames could not be kept.
    129:
      id: index
      doc: Offsets of blocks.
    130:
      id: events
      doc: Events of ticks.
    131:
      id: aux
      doc: Sections that others keep beside the state.
    132:
      id: telemetry
      doc: Figures of ticks as columns.
    133:
      id: changes
      doc: Changes of the state by ticks.
    134:
      id: writes
      doc: The rows that the steps of an interval have written.
  codec:
    0: none
    1: lz4
    2:
      id: zstd
      doc: One Zstandard frame, of a packed tape.
    3:
      id: streams
      doc: The frames of a FRAMES block as streams in Zstandard frames, of a packed tape; see SPEC.md.
  extension:
    1:
      id: array
      doc: MessagePack array [dtype, shape], then the elements in C order, little-endian.
    2:
      id: number
      doc: As array, with shape []; a NumPy number.
