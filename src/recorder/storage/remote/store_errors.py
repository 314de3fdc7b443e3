"""Errors of stores as errors of the operating system, in one line each; and the ones that may pass."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from typing import TypeVar

from recorder.location.tape_url import TapeUrl
from recorder.storage.remote.url_settings import FIRST_PAUSE_S, UrlSettings

Result = TypeVar("Result")
BUSY_STATUSES = {408, 425, 429, 500, 502, 503, 504}  # Of HTTP: asked again later, the store may answer.
_DENIED_STATUSES, _MISSING_STATUSES = {401, 403, 407}, {404, 410}
_STORE_PACKAGES = ("aiohttp", "botocore", "aiobotocore", "gcsfs", "google", "azure", "adlfs", "requests", "urllib3")
_WHY_MAX = 200  # Characters: a store may answer with a page.


class ChangedError(OSError):
    """The file at a URL is not the one any more that was opened."""


class CutOffError(OSError):
    """A store sent fewer bytes than were asked for."""


def changed(url: TapeUrl) -> ChangedError:
    """The error for a file that is another one now."""
    return ChangedError(errno.ESTALE, "it was changed while it was read: open it again", url.shown)


def cut_off(url: TapeUrl, received: int, expected: int) -> CutOffError:
    """The error for an answer that ended early. Sizes are in bytes."""
    why = f"the answer of the store was cut off: expected {expected:,} bytes, got {received:,}"
    return CutOffError(errno.EIO, why, url.shown)


def asked(url: TapeUrl, settings: UrlSettings, ask: Callable[[], Result]) -> Result:
    """The result of a request; one that fails for a reason that may pass is repeated, with growing pauses.

    Raises FileNotFoundError, PermissionError, TimeoutError or another OSError, which name the URL; what is no error of a
    store is raised as it is.
    """
    pause_s = FIRST_PAUSE_S
    for attempt in range(1, settings.attempts + 1):
        try:
            return ask()
        except Exception as error:
            told = as_os_error(error, url)
            if told is None:
                raise
            if attempt == settings.attempts or not _may_pass(error, told):
                if attempt > 1:
                    told = type(told)(told.errno, f"{told.strerror} (asked {attempt} times)", told.filename)
                raise told from (error if told is not error else error.__cause__)
        time.sleep(pause_s)
        pause_s *= 2
    raise AssertionError("the last attempt returns or raises")


def as_os_error(error: Exception, url: TapeUrl) -> OSError | None:
    """The error of a store as one of the system that names the URL; None if it is no error of a store."""
    if isinstance(error, ChangedError | CutOffError):
        return error
    status = status_of(error)
    if status in _MISSING_STATUSES or isinstance(error, FileNotFoundError):
        return _system_error(errno.ENOENT, url)
    if status in _DENIED_STATUSES or isinstance(error, PermissionError):
        return OSError(errno.EACCES, f"the store does not permit it{_details(error)}", url.shown)
    if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__:
        return OSError(errno.ETIMEDOUT, "the store did not answer in time", url.shown)
    if status is not None:
        return OSError(errno.EIO, f"the store answered {status}{_details(error)}", url.shown)
    if "Credentials" in type(error).__name__ or "Token" in type(error).__name__:
        return OSError(errno.EACCES, f"the store does not permit it{_details(error)}", url.shown)
    if isinstance(error, OSError) or type(error).__module__.partition(".")[0] in _STORE_PACKAGES:
        number = error.errno if isinstance(error, OSError) and error.errno is not None else errno.EIO
        return OSError(number, f"the store cannot be read{_details(error)}", url.shown)
    return None


def status_of(error: BaseException) -> int | None:
    """The status of HTTP that an error, or its cause, comes from; None if it comes from none."""
    package = type(error).__module__.partition(".")[0]
    if package == "aiohttp":
        status = getattr(error, "status", None)
    elif package == "gcsfs":
        status = getattr(error, "code", None)
    else:
        status = None
    for one in (error, error.__cause__):  # s3fs chains the error of botocore.
        match getattr(one, "response", None):
            case {"ResponseMetadata": {"HTTPStatusCode": int(status)}}:
                pass
    return status if isinstance(status, int) else None


def _may_pass(error: Exception, told: OSError) -> bool:
    if isinstance(error, ChangedError):
        return False
    status = status_of(error)
    if status is not None:
        return status in BUSY_STATUSES
    return told.errno not in (errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR)


def _system_error(number: int, url: TapeUrl) -> OSError:
    return OSError(number, os.strerror(number), url.shown)


def _details(error: Exception) -> str:
    message = getattr(error, "message", None)  # Of an answer: its whole text may hold a signed URL.
    told = error.strerror if isinstance(error, OSError) else None
    text = " ".join((message if isinstance(message, str) else told or str(error)).split())
    return f": {text[:_WHY_MAX]}" if text else f": {type(error).__name__}"
