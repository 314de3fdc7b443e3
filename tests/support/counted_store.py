"""A store in memory that counts its requests and fails on demand, as a file system of fsspec: ``counted://``."""

from __future__ import annotations

from typing import Any, ClassVar

from optional_packages import needs

needs("fsspec")

import fsspec  # noqa: E402
from fsspec.implementations.memory import MemoryFileSystem  # noqa: E402


class CountedStore(MemoryFileSystem):  # type: ignore[misc]
    """Counts reads with their sizes, and listings. Each error in ``failing`` is raised by one read."""

    protocol = "counted"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    reads: ClassVar[list[tuple[str, int, int]]] = []
    listings: ClassVar[list[str]] = []
    failing: ClassVar[list[BaseException]] = []
    short_by: ClassVar[list[int]] = []
    put_names: ClassVar[list[str]] = []
    failing_puts: ClassVar[dict[int, BaseException]] = {}  # By the number of the upload, from 0.

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> Any:
        """One read."""
        self.reads.append((path, start or 0, end or 0))
        if self.failing:
            raise self.failing.pop(0)
        data = super().cat_file(path, start=start, end=end, **kwargs)
        return data[: len(data) - self.short_by.pop(0)] if self.short_by else data

    def put_file(self, lpath: Any, rpath: str, **kwargs: Any) -> Any:
        """One upload."""
        self.put_names.append(rpath)
        error = self.failing_puts.pop(len(self.put_names) - 1, None)
        if error is not None:
            raise error
        return super().put_file(lpath, rpath, **kwargs)

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> Any:  # noqa: FBT001, FBT002 - fsspec's
        """One listing."""
        self.listings.append(path)
        return super().ls(path, detail=detail, **kwargs)

    @classmethod
    def _strip_protocol(cls, path: str) -> Any:
        return super()._strip_protocol(path.replace("counted://", "memory://"))

    @classmethod
    def forget(cls) -> None:
        """Forget what was counted."""
        cls.reads.clear()
        cls.listings.clear()
        cls.failing.clear()
        cls.short_by.clear()
        cls.put_names.clear()
        cls.failing_puts.clear()


fsspec.register_implementation("counted", CountedStore, clobber=True)


def put(name: str, data: bytes) -> str:
    """Store a file; returns its URL."""
    CountedStore().pipe_file(f"/runs/{name}", data)
    return f"counted://runs/{name}"


def empty() -> None:
    """Remove all files, and forget what was counted."""
    CountedStore.store.clear()
    CountedStore.pseudo_dirs[:] = [""]
    CountedStore.forget()
