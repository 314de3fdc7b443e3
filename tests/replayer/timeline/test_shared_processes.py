"""Intervals that share a process find what a process for each finds: hidden state, wherever it is kept."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# The first lines of each module; {body} is its step.
HEAD = """
import functools, math, os, random, sys
import numpy as np
from sim import Field, Schema, State

class Game:
    def __init__(self):
        self.state = State(Schema(Field("x", "i8")))
    def step(self, inputs):
        x = self.state["x"]
        x[()] += 1
        tick = int(x) % 1000
        x[()] += 1000 * self.hidden(tick)
"""
SETS_LATER = "if tick in (40, 140): {set}\n        found = 1 if tick == 90 and {is_set} else 0\n"
# Set at ticks 40 and 140, read at tick 90, and unset at tick 10. A process that walks the last interval first reads what a
# later one has set, as it was when the run was recorded, and leaves all as it was in the end.
UNSET = "        if tick == 10: {unset}\n        return found"


def flagged(prefix: str, set_: str, is_set: str, unset: str) -> str:
    """A module whose step sets, reads and unsets something."""
    body = (SETS_LATER + UNSET).format(set=set_, is_set=is_set, unset=unset)
    return f"{HEAD}    def hidden(self, tick):\n        {body}\n\n{prefix}\n"


CLEAN = f"{HEAD}    def hidden(self, tick):\n        return int(np.unique([TABLE[tick % 3]])[0]) + NAMES['a'][0]\nTABLE = np.arange(3)\nNAMES = {{'a': [1]}}\n"
HIDDEN = {
    "attribute": flagged("", "self.flag = True", "getattr(self, 'flag', False)", "self.flag = False"),
    "global": flagged("FLAG = [0]", "FLAG[0] = 1", "FLAG[0]", "FLAG[0] = 0"),
    "global name": flagged("FLAG = 0", "globals().update(FLAG=1)", "globals()['FLAG']", "globals().update(FLAG=0)"),
    "class attribute": flagged("Game.flag = 0", "Game.flag = 1", "Game.flag", "Game.flag = 0"),
    "dict": flagged("SEEN = {}", "SEEN['a'] = 1", "'a' in SEEN", "SEEN.clear()"),
    "array": flagged("SEEN = np.zeros(3)", "SEEN[1] = 1", "SEEN[1] == 1", "SEEN[1] = 0"),
    "bytearray": flagged("SEEN = bytearray(3)", "SEEN[1] = 1", "SEEN[1]", "SEEN[1] = 0"),
    "array of dates": flagged(
        "SEEN = np.array(['2020'], 'M8[Y]')", "SEEN[0] = '2021'", "int(SEEN[0].astype(int)) == 51", "SEEN[0] = '2020'"
    ),
    "dataclass": flagged(
        "import dataclasses\n@dataclasses.dataclass\nclass Box:\n    flag: int = 0\n    more: list = dataclasses.field(default_factory=list)\nBOX = Box()",
        "BOX.more.append(1)",
        "BOX.more",
        "BOX.more.clear()",
    ),
    "object": flagged("class Box: pass\nBOX = Box(); BOX.flag = 0", "BOX.flag = 1", "BOX.flag", "BOX.flag = 0"),
    "default argument": flagged(
        "def keep(value=None, kept=[0]):\n    if value is not None: kept[0] = value\n    return kept[0]",
        "keep(1)",
        "keep()",
        "keep(0)",
    ),
    "function attribute": flagged("def keep(): pass\nkeep.flag = 0", "keep.flag = 1", "keep.flag", "keep.flag = 0"),
    "closure": flagged(
        "def make():\n    flag = 0\n    def keep(value=None):\n        nonlocal flag\n"
        "        if value is not None: flag = value\n        return flag\n    return keep\nkeep = make()",
        "keep(1)",
        "keep()",
        "keep(0)",
    ),
    "cache": flagged(
        "@functools.lru_cache\ndef keep(n): return n",
        "keep(7)",
        "keep.cache_info().currsize == 1",
        "keep.cache_clear()",
    ),
    "partial": flagged(
        "PART = functools.partial(list, [0])", "PART.args[0][0] = 1", "PART.args[0][0]", "PART.args[0][0] = 0"
    ),
    "bound method": flagged("PUT = [].append", "PUT(1)", "len(PUT.__self__) == 1", "PUT.__self__.clear()"),
    "environment": flagged("", "os.environ.update(FLAG='1')", "'FLAG' in os.environ", "os.environ.pop('FLAG', None)"),
    "name in sys": flagged("", "setattr(sys, 'flag', 1)", "getattr(sys, 'flag', 0)", "setattr(sys, 'flag', 0)"),
    "name in a library": flagged(
        "", "setattr(math, 'flag', 1)", "getattr(math, 'flag', 0)", "setattr(math, 'flag', 0)"
    ),
    "name in a class of a library": flagged("", "State.flag = 1", "getattr(State, 'flag', 0)", "State.flag = 0"),
    "random": flagged("random.seed(3)", "random.seed(1)", "random.random() == 0.13436424411240122", "random.seed(3)"),
    "np.random": flagged("np.random.seed(3)", "np.random.seed(1)", "np.random.random() < 0.5", "np.random.seed(3)"),
    "errors of NumPy": flagged(
        "", "np.seterr(over='ignore')", "np.geterr()['over'] == 'ignore'", "np.seterr(over='warn')"
    ),
    "recursion limit": flagged(
        "LIMIT = sys.getrecursionlimit()",
        "sys.setrecursionlimit(LIMIT + 5)",
        "sys.getrecursionlimit() == LIMIT + 5",
        "sys.setrecursionlimit(LIMIT)",
    ),
    "print options": flagged(
        "",
        "np.set_printoptions(precision=3)",
        "np.get_printoptions()['precision'] == 3",
        "np.set_printoptions(precision=8)",
    ),
    "path of imports": flagged(
        "", "sys.path.append('zz')", "'zz' in sys.path", "'zz' in sys.path and sys.path.remove('zz')"
    ),
    "list in sys": flagged("sys.memo = [0]", "sys.memo[0] = 1", "sys.memo[0]", "sys.memo[0] = 0"),
    "attribute of a stream": flagged(
        "sys.stdout.flag = 0", "sys.stdout.flag = 1", "sys.stdout.flag", "sys.stdout.flag = 0"
    ),
    "name in a library that a step imports": flagged(
        "def lib():\n    import heapq\n    return vars(heapq)\nlib().update(flag=0)",
        "lib().update(flag=1)",
        "lib()['flag']",
        "lib().update(flag=0)",
    ),
    "dict in a library": flagged("np.memo = {}", "np.memo.update(a=1)", "np.memo", "np.memo.clear()"),
    "name in a part of a library": flagged("os.path.flag = 0", "os.path.flag = 1", "os.path.flag", "os.path.flag = 0"),
    "attribute of a library's function": flagged(
        "import json\njson.dumps.flag = 0", "json.dumps.flag = 1", "json.dumps.flag", "json.dumps.flag = 0"
    ),
    "attribute of a library's class": flagged(
        "import json\njson.JSONEncoder.flag = 0",
        "json.JSONEncoder.flag = 1",
        "json.JSONEncoder.flag",
        "json.JSONEncoder.flag = 0",
    ),
    "function in a wrapper's name": flagged(
        "@functools.wraps(math.sqrt)\ndef keep(value=None, kept=[0]):\n"
        "    if value is not None: kept[0] = value\n    return kept[0]",
        "keep(1)",
        "keep()",
        "keep(0)",
    ),
    "spawned generator": flagged(
        "RNG = np.random.default_rng(3)", "RNG.spawn(1)", "RNG.bit_generator.seed_seq.n_children_spawned > 0", "pass"
    ),
    "class of an object": flagged(
        "class A: pass\nclass B: pass\nONE = A()", "ONE.__class__ = B", "type(ONE) is B", "ONE.__class__ = A"
    ),
    "bases of a class": flagged(
        "class A: pass\nclass B: pass\nclass C(A): pass", "C.__bases__ = B,", "C.__bases__ == (B,)", "C.__bases__ = A,"
    ),
    "registered class": flagged(
        "import abc\nclass A(abc.ABC): pass\nclass B: pass", "A.register(B)", "issubclass(B, A)", "pass"
    ),
    "derived class": flagged("class A: pass", "type('X', (A,), {})", "A.__subclasses__()", "pass"),
    "text of a class": flagged("class A: pass", "A.__doc__ = '1'", "A.__doc__ == '1'", "A.__doc__ = None"),
    "attribute of a counter": flagged(
        "import collections\nC = collections.Counter(); C.flag = 0", "C.flag = 1", "C.flag", "C.flag = 0"
    ),
    "default of a dict": flagged(
        "import collections\nC = collections.defaultdict(list)",
        "C.default_factory = set",
        "C.default_factory is set",
        "C.default_factory = list",
    ),
    "record": flagged("R = np.zeros((), [('n', 'i8')])[()]", "R['n'] = 1", "R['n'] == 1", "R['n'] = 0"),
    "iterator of a deque": flagged(
        "import collections\nIT = iter(collections.deque(range(1000)))", "next(IT)", "next(IT) == 1", "pass"
    ),
    "function in a ufunc": flagged(
        "def make():\n    n = [0]\n    def keep(v):\n        if v >= 0: n[0] = v\n        return n[0]\n"
        "    return np.frompyfunc(keep, 1, 1)\nkeep = make()",
        "keep(1)",
        "keep(-1)",
        "keep(0)",
    ),
    "import by a call": flagged(
        "",
        "__import__('gc').set_threshold(701)",
        "__import__('gc').get_threshold()[0] == 701",
        "__import__('gc').set_threshold(700)",
    ),
    "umask": flagged("os.umask(0o22)", "os.umask(0o77)", "os.umask(0o77) == 0o77", "os.umask(0o22)"),
    "out of sight": flagged(
        "def level(n=None):\n    import logging\n    log = logging.getLogger('x')\n"
        "    if n is not None: log.level = n\n    return log.level",
        "level(7)",
        "level() == 7",
        "level(0)",
    ),
    "iterator": flagged("import itertools\nCOUNT = itertools.count()", "next(COUNT)", "next(COUNT) == 1", "pass"),
    "exception": flagged(
        "FLAG = [0]\ndef fail(): raise ValueError('unset')", "FLAG[0] = 1", "(FLAG[0] or fail())", "FLAG[0] = 0"
    ),
}

REFUSED = {  # No process is shared: not everything can be read.
    *("iterator", "out of sight", "record", "iterator of a deque", "function in a ufunc", "import by a call", "umask"),
}

# Each game is recorded in a process of its own, and verified in another one, in both ways.
RUN = """
import importlib, json, os, sys, warnings
from pathlib import Path
warnings.simplefilter("ignore")
import numpy as np
import recorder, replayer
from replayer.report.report_text import report_facts
from replayer.timeline import interval_processes
from replayer.timeline.verify import verify_tape

def verified(path, factory, fewest):
    interval_processes.SHARED_MIN, interval_processes.SHARED_S, shared = fewest, 1e9, []
    share = interval_processes.IntervalProcesses._shared
    def counted(self, *arguments):
        for result in share(self, *arguments):
            shared.append(result)
            yield result
    interval_processes.IntervalProcesses._shared = counted
    try:
        facts = report_facts(verify_tape(path, factory, tests_causes=False))
    except recorder.SimulationFailedError as error:
        facts = {"raised": str(error)}
    interval_processes.IntervalProcesses._shared = share
    return facts, len(shared)

def record(name):
    game = importlib.import_module(name).Game()
    with recorder.Recorder(f"{name}.tape", game, keyframe_interval_ticks=25, trial_ms=0) as run:
        for _ in range(200):
            run.step(None)

def verify(name):
    module, path = importlib.import_module(name), Path(f"{name}.tape")
    alone, _ = verified(path, module.Game, 10**9)
    together, count = verified(path, module.Game, 4)
    Path(f"{name}.json").write_text(json.dumps([alone, together, count]))

sys.path.insert(0, "")
for name in sys.argv[1:]:
    for work in (record, verify):
        child = os.fork()
        if not child:
            code = 1
            try:
                work(name)
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0, name
"""


def module_name(case: str) -> str:
    """The module of a case."""
    return "game_" + case.replace(" ", "_").replace(".", "_")


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What both ways found in each game that a test of this run asks for."""
    folder = tmp_path_factory.mktemp("games")
    parameters = [getattr(item, "callspec", None) for item in request.session.items if item.path == request.path]
    asked = {one.params.get("case") for one in parameters if one is not None}
    cases = {"clean": CLEAN} | {case: text for case, text in HIDDEN.items() if case in asked}
    for case, text in cases.items():
        (folder / f"{module_name(case)}.py").write_text(text)
    names = [module_name(case) for case in cases]
    (folder / "run.txt").write_text(RUN)
    main = "exec(open('run.txt').read(), {'__name__': 'run'})"  # Its names are in no module, and so not the user's.
    done = subprocess.run(
        [sys.executable, "-c", main, *names], cwd=folder, capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stderr
    return {case: json.loads(Path(folder, f"{module_name(case)}.json").read_text()) for case in cases}


@pytest.mark.seldom(0.15)
def test_intervals_of_a_sound_simulation_share_processes(results: dict[str, list[Any]]) -> None:
    """All of them but the first."""
    alone, together, shared = results["clean"]
    assert alone == together
    assert together["ok"]
    assert shared == 9


@pytest.mark.sample(8)
@pytest.mark.parametrize("case", HIDDEN)
def test_hidden_state_is_found_as_by_a_process_for_each_interval(results: dict[str, list[Any]], case: str) -> None:
    """At the same tick, and in the same words."""
    alone, together, shared = results[case]
    assert (shared == 0) == (case in REFUSED)
    assert alone == together
    assert alone.get("first_bad") == 90 or "tick 90" in alone["raised"]
