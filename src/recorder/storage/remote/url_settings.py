"""Settings of reading from URLs, from a location or from the environment: cache, read-ahead, patience and attempts."""

from __future__ import annotations

import os

import attrs

from recorder.location.tape_url import TapeUrl
from recorder.storage.memory_limit import parse_size

CACHE_VARIABLE, READ_AHEAD_VARIABLE = "REPLAY_URL_CACHE", "REPLAY_URL_READ_AHEAD"
TIMEOUT_VARIABLE, ATTEMPTS_VARIABLE = "REPLAY_URL_TIMEOUT", "REPLAY_URL_ATTEMPTS"
# A verification reads each block twice, once to check it and once to simulate from it: a tape of up to this size comes
# over the network once.
CACHE_BYTES = 64 << 20
# The trailer, the index and META of most tapes are in it, so opening takes two reads. A store takes longer to begin its
# answer than to send so much; more would make a seek wait for bytes that it does not use.
READ_AHEAD_BYTES = 256 << 10
TIMEOUT_S = 30.0
ATTEMPTS = 5  # Over about 1.5 s. A store that is too busy says so by an error, and expects to be asked again.
FIRST_PAUSE_S = 0.1  # Before the second attempt; it doubles each time.


@attrs.frozen
class UrlSettings:
    """How a URL is read.

    Attributes:
        cache_bytes: that are kept in memory for each file; 0 keeps none.
        read_ahead_bytes: the least that is read at once, where the file has as many; 0 reads what is asked for and keeps
            nothing.
        timeout_s: a store that sends nothing for longer has failed.
        attempts: in all, of a request that fails for a reason that may pass.
    """

    cache_bytes: int
    read_ahead_bytes: int
    timeout_s: float
    attempts: int


def settings_of(url: TapeUrl) -> UrlSettings:
    """The settings of a location, then of the environment, then the defaults. Raises ValueError."""
    cache_bytes, read_ahead_bytes = url.cache_bytes, url.read_ahead_bytes
    return UrlSettings(
        _size(CACHE_VARIABLE, CACHE_BYTES) if cache_bytes is None else cache_bytes,
        _size(READ_AHEAD_VARIABLE, READ_AHEAD_BYTES) if read_ahead_bytes is None else read_ahead_bytes,
        _number(TIMEOUT_VARIABLE, TIMEOUT_S),
        max(1, int(_number(ATTEMPTS_VARIABLE, ATTEMPTS))),
    )


def _size(variable: str, default: int) -> int:
    text = os.environ.get(variable)
    if text is None:
        return default
    try:
        return 0 if text.strip() == "0" else parse_size(text)
    except ValueError as error:
        raise ValueError(f"{variable}: {error}") from None


def _number(variable: str, default: float) -> float:
    text = os.environ.get(variable)
    try:
        number = default if text is None else float(text)
    except ValueError:
        number = -1.0
    if not 0 < number < float("inf"):
        raise ValueError(f"{variable}: expected a number above 0, got {text!r}")
    return number
