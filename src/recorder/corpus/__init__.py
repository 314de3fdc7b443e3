"""Corpora: folders of tapes with an index of their runs, made by ``record generate``, listed by ``replay ls``."""

from recorder.corpus.corpus import Corpus
from recorder.corpus.inspect_tape import examine, glance
from recorder.corpus.run import PlayerResult, Quality, Run, Settings
from recorder.corpus.selection import Selection

__all__ = ["Corpus", "PlayerResult", "Quality", "Run", "Selection", "Settings", "examine", "glance"]


def __dir__() -> list[str]:
    return sorted(__all__)
