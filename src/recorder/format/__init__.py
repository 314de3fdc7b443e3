"""The bytes of a tape, sans I/O: bytes in, bytes out; no files, threads or clocks."""
