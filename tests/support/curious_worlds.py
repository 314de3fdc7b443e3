"""Simulations whose steps read the outside world, one kind of thing each; their reading is in one line."""

from __future__ import annotations

import datetime as dt
import gc
import json
import locale
import os
import random
import secrets
import threading
import time
import uuid
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from sim import Field, Schema, State


class Curious:
    """A number that each step raises by what it reads."""

    def __init__(self) -> None:
        self.state = State(Schema(Field("x", "f8")))

    def step(self, inputs: Any = None) -> None:  # noqa: ARG002
        self.state["x"][()] += 1 + float(self.read() or 0)

    def read(self) -> float:
        raise NotImplementedError


class ReadsFile(Curious):
    def read(self) -> float:
        with open("config.json") as file:  # noqa: PTH123 - the defect
            return float(json.load(file)["rate"])


class ReadsPath(Curious):
    def read(self) -> float:
        return len(Path("config.json").read_text()) if Path("config.json").exists() else 0


class ReadsArray(Curious):
    def read(self) -> float:
        return float(np.loadtxt("numbers.txt").sum())


class ListsFolder(Curious):
    def read(self) -> float:
        return float(os.listdir("units").index("b"))  # noqa: PTH208 - the defect


class WalksFolder(Curious):
    def read(self) -> float:
        return sum(len(path.name) for path in Path("units").iterdir())


class ReadsVariable(Curious):
    def read(self) -> float:
        return float(os.environ.get("RATE", "1"))


class ReadsAllVariables(Curious):
    def read(self) -> float:
        return float(dict(os.environ).get("RATE", 1))


class ReadsZone(Curious):
    def read(self) -> float:
        return dt.datetime.fromtimestamp(0).hour  # noqa: DTZ006 - the defect


class ReadsLocalTime(Curious):
    def read(self) -> float:
        return time.localtime(0).tm_hour


class ReadsLocale(Curious):
    def read(self) -> float:
        return len(locale.localeconv()["decimal_point"])  # type: ignore[arg-type]


class ReadsClock(Curious):
    def read(self) -> float:
        return time.time()


class ReadsImportedClock(Curious):
    def read(self) -> float:
        return perf_counter()


class ReadsDate(Curious):
    def read(self) -> float:
        return dt.datetime.now().microsecond  # noqa: DTZ005 - the defect


class DrawsUuid(Curious):
    def read(self) -> float:
        return uuid.uuid4().int % 1000


class DrawsSecret(Curious):
    def read(self) -> float:
        return secrets.randbelow(1000)


class SeedsItself(Curious):
    def read(self) -> float:
        return float(np.random.default_rng().random())


class DrawsRandom(Curious):
    def read(self) -> float:
        return random.random()


class DrawsNumPy(Curious):
    def read(self) -> float:
        return float(np.random.rand())  # noqa: NPY002 - the defect


class CountsThreads(Curious):
    def read(self) -> float:
        return threading.active_count()


class StartsThread(Curious):
    def read(self) -> float:
        thread = threading.Thread(target=time.sleep, args=(0,))
        thread.start()
        thread.join()
        return 0


class CountsProcessors(Curious):
    def read(self) -> float:
        return os.cpu_count() or 0


class TakesId(Curious):
    def read(self) -> float:
        return id(self) % 1000


class HashesText(Curious):
    def read(self) -> float:
        return hash("plankton") % 1000


class AsksForProcess(Curious):
    def read(self) -> float:
        return os.getpid()


class AsksForFolder(Curious):
    def read(self) -> float:
        return len(os.getcwd())  # noqa: PTH109 - the function that is watched


class CollectsGarbage(Curious):
    def read(self) -> float:
        return gc.collect()


class Sound(Curious):
    """Reads nothing: it imports a module, hashes numbers, parses a date and computes."""

    def read(self) -> float:
        import colorsys

        moment = dt.datetime(2020, 1, 2) + dt.timedelta(hours=3)  # noqa: DTZ001 - it has no time zone
        return hash(7) + moment.hour + sum(colorsys.rgb_to_hls(0.1, 0.2, 0.3)) + float(np.exp(0.5))
