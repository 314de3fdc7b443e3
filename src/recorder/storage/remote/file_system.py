"""The file system of a URL, by fsspec: one for each scheme and options in each process, without hidden caches."""

from __future__ import annotations

import importlib
import inspect
import os
import threading
from typing import Any

from recorder.errors import UnreadableError
from recorder.location.tape_url import TapeUrl
from recorder.storage.remote.store_errors import as_os_error
from recorder.storage.remote.url_settings import UrlSettings
from sim.extras import missing_package

# The package and the extra of a scheme. Other packages come with fsspec, or are named by it.
_S3, _GS, _HTTPS = ("s3fs", "s3"), ("gcsfs", "gs"), ("aiohttp", "https")
_NEEDED = {"s3": _S3, "s3a": _S3, "gs": _GS, "gcs": _GS, "http": _HTTPS, "https": _HTTPS}
_file_systems: dict[tuple[int, str, str, float], Any] = {}  # By process: connections do not survive a fork.
_lock = threading.Lock()


def _renew_lock() -> None:
    """In a forked copy: a thread that it lacks may hold the lock. fsspec renews its own, and its thread, in the same way."""
    global _lock  # noqa: PLW0603 - of this process
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


def file_system(url: TapeUrl, settings: UrlSettings) -> Any:
    """The file system of a URL.

    It keeps no listings and repeats no requests: both are done here, where they can be seen. Raises UnreadableError for
    an unknown scheme, one that needs options, or if its package is not installed; ValueError for options that it does
    not take; OSError for a server that does not answer.
    """
    key = os.getpid(), url.scheme, repr(sorted(url.options.items(), key=repr)), settings.timeout_s
    with _lock:
        if key not in _file_systems:
            _file_systems[key] = _made(url, settings)
        return _file_systems[key]


def _made(url: TapeUrl, settings: UrlSettings) -> Any:
    try:
        registry = importlib.import_module("fsspec.registry")
    except ModuleNotFoundError:
        _, extra = _NEEDED.get(url.scheme, ("", "url"))
        raise UnreadableError(url.shown, missing_package(f"{url.scheme}://", "fsspec", extra)) from None
    try:
        made_by = registry.get_filesystem_class(url.scheme)
    except ValueError:
        why = f"the scheme {url.scheme}:// is not known: expected one such as s3, gs, https, memory or file"
        raise UnreadableError(url.shown, why) from None
    except ImportError as error:
        if (needed := _NEEDED.get(url.scheme)) is not None:
            raise UnreadableError(url.shown, missing_package(f"{url.scheme}://", *needed)) from None
        raise UnreadableError(url.shown, f"{url.scheme}:// needs a package: {error}") from None
    options = {"use_listings_cache": False, "skip_instance_cache": True} | _limits(url.scheme, settings)
    for name, value in url.options.items():
        both = isinstance(value, dict) and isinstance(options.get(name), dict)
        options[name] = {**options[name], **value} if both else value
    made = _with_options(made_by, url, options)
    if url.scheme in ("s3", "s3a"):
        made.retries = 1
    return made


def _with_options(made_by: Any, url: TapeUrl, options: dict[str, Any]) -> Any:
    try:
        # Before it is made: one of which only a part is made may print a traceback when it is dropped.
        inspect.signature(made_by.__init__).bind(None, **options)
        return made_by(**options)
    except ImportError as error:
        raise UnreadableError(url.shown, f"{url.scheme}:// needs a package: {error}") from None
    except (TypeError, ValueError) as error:
        if url.options:
            raise ValueError(f"{url.shown}: options of {url.scheme}://: {error}") from None
        why = f"{url.scheme}:// needs options, which replayer.TapeUrl takes in Python: {error}"
        raise UnreadableError(url.shown, why) from None
    except Exception as error:
        if (told := as_os_error(error, url)) is None:
            raise
        raise told from error


def _limits(scheme: str, settings: UrlSettings) -> dict[str, Any]:
    """Options that bound the duration of a request, and leave its repetition to store_errors.asked."""
    if scheme in ("s3", "s3a"):
        waits = {"connect_timeout": settings.timeout_s, "read_timeout": settings.timeout_s}
        return {"config_kwargs": waits | {"retries": {"total_max_attempts": 1}}}
    if scheme in ("http", "https"):
        client = importlib.import_module("aiohttp")
        timeout = client.ClientTimeout(total=None, sock_connect=settings.timeout_s, sock_read=settings.timeout_s)
        return {"client_kwargs": {"timeout": timeout}}
    return {}


def path_in_store(made: Any, url: TapeUrl) -> str:
    """The path of a URL as its file system takes it."""
    return str(made._strip_protocol(url.text))  # noqa: SLF001 - fsspec's interface for file systems, despite its name
