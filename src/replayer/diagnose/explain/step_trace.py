"""The trace of one step, as plain data: the lines that ran, the values that each changed, and the operations.

Values are digests (see value_hash.py); some are kept themselves as well. A name states where a value lives:

    s:energy        the field energy of the state
    f3:growth       the local variable growth of the third frame; f3:return is the return value of that frame
    o0:count        the attribute count of the first object whose methods ran
    g:flock:SEEN    the global SEEN of the module flock
    c:Flock:total   the class attribute total of Flock
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from replayer.diagnose.explain.values.process_settings import Settings
from replayer.diagnose.explain.values.value_parts import Parts

LINE, RETURN, RESUME = "line", "return", "resume"

Values = dict[str, int | None]  # Digests by name; None: the name is gone.


def is_inner(function: str) -> bool:
    """Return True for the name of an expression with its own frame, which reads the names of the function around it."""
    return function.endswith(("<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>"))


def is_of_module(name: str, module: str, attribute: str) -> bool:
    """Return True for a global of a module, as a line names both: memos.COSTS."""
    prefix, _, rest = name.partition(":")
    home, _, last = rest.rpartition(":")
    return prefix == "g" and last == attribute and home.rpartition(".")[2] == module


@attrs.define
class Record:
    """One line that ran, a return from a function, or the rest of a line after a call that it made.

    Attributes:
        kind: LINE, RETURN or RESUME.
        module, path, line, function: of the source.
        frame: number of the call that it is part of.
        parent: index of the caller's record; -1 for the first frame.
        owner: number of the object whose method it is; -1 if it is a function.
        before: values seen for the first time before it ran.
        after: values that it changed.
        late: of those, values that were not read after each line, each with the record after which it was last read.
        orders: of sets that the line may iterate over, by name in the source, and of one that a function returns, by
            RETURN: digests of the members and of their order, and the first members as text.
        named: attributes of other objects that the line names, as written: those as traces name them.
        asked: of ``one is other`` in the line: whether they are one object before it runs, and whether they are equal.
    """

    kind: str
    module: str
    path: str
    line: int
    function: str
    frame: int
    parent: int
    owner: int
    before: Values = attrs.field(factory=dict)
    after: Values = attrs.field(factory=dict)
    late: dict[str, int] = attrs.field(factory=dict)
    orders: dict[str, tuple[int, int, str]] = attrs.field(factory=dict)
    named: dict[str, str] = attrs.field(factory=dict)
    asked: dict[str, tuple[bool, bool]] = attrs.field(factory=dict)


@attrs.define
class Operation:
    """One operation on arrays, or call of a function whose result may change from call to call.

    Attributes:
        name: for example np.exp.
        record: index of the record that it is part of; -1 if no line was traced yet.
        path, line: of the source.
        inputs, outputs: digests.
        parts: the names of the outputs that are parts of the result, as "[0]" or ".x"; those after them are changed inputs.
    """

    name: str
    record: int
    path: str
    line: int
    inputs: list[int]
    outputs: list[int]
    parts: list[str] = attrs.field(factory=list)


@attrs.define
class StepTrace:
    """A traced step.

    Attributes:
        records, operations: in the order in which they happened.
        texts: texts of values, by digest.
        arrays: the values that were kept, by digest.
        parts: the parts of containers and objects, by digest, as long as there are few enough.
        limited: why the step was not watched to the end; None if it was.
        identities: before the step: by name of an object, the first name that leads to it.
        holds: by name of a value: the number of the object that it was when last read, if methods of that ran.
        settings: of the whole process, before the step; see values/process_settings.py.
        owners: the names, before the step, of objects whose methods ran, by their numbers.
        modules: the files of the user's modules, by their names.
        not_kept: names of attributes that were functions, classes or modules, which have no digests.
        elsewhere: the numbers of objects whose methods ran, that existed before the step and that the instance did not hold.
        suspended: the numbers of frames of generators and coroutines that existed before the step.
    """

    records: list[Record] = attrs.field(factory=list)
    operations: list[Operation] = attrs.field(factory=list)
    texts: dict[int, str] = attrs.field(factory=dict)
    arrays: dict[int, np.ndarray[Any, Any]] = attrs.field(factory=dict)
    limited: str | None = None
    identities: dict[str, str] = attrs.field(factory=dict)
    parts: dict[int, Parts] = attrs.field(factory=dict)
    holds: dict[str, int] = attrs.field(factory=dict)
    settings: Settings = attrs.field(factory=dict)
    owners: dict[int, str] = attrs.field(factory=dict)
    modules: dict[str, str] = attrs.field(factory=dict)
    not_kept: set[str] = attrs.field(factory=set)
    elsewhere: set[int] = attrs.field(factory=set)
    suspended: set[int] = attrs.field(factory=set)

    def to_plain(self) -> dict[str, Any]:
        """Encode as lists, numbers, strings and bytes."""
        return {
            "records": [list(attrs.astuple(record, recurse=False)) for record in self.records],
            "operations": [list(attrs.astuple(operation, recurse=False)) for operation in self.operations],
            "texts": self.texts,
            "arrays": {digest: array_to_plain(array) for digest, array in self.arrays.items()},
            "limited": self.limited,
            "identities": self.identities,
            "parts": self.parts,
            "holds": self.holds,
            "settings": self.settings,
            "owners": self.owners,
            "modules": self.modules,
            "not_kept": sorted(self.not_kept),
            "elsewhere": sorted(self.elsewhere),
            "suspended": sorted(self.suspended),
        }

    @staticmethod
    def from_plain(plain: dict[str, Any]) -> StepTrace:
        """Decode the plain data of to_plain."""
        return StepTrace(
            [Record(*parts) for parts in plain["records"]],
            [Operation(*parts) for parts in plain["operations"]],
            plain["texts"],
            {digest: array_from_plain(array) for digest, array in plain["arrays"].items()},
            plain["limited"],
            plain["identities"],
            plain["parts"],
            plain["holds"],
            plain["settings"],
            plain["owners"],
            plain["modules"],
            set(plain["not_kept"]),
            set(plain["elsewhere"]),
            set(plain["suspended"]),
        )


def array_to_plain(array: Any) -> list[Any]:
    """Encode an array without Python objects as plain data."""
    plain = np.asarray(array)
    return [plain.dtype.str, list(plain.shape), plain.tobytes()]


def array_from_plain(plain: list[Any]) -> np.ndarray[Any, Any]:
    """Decode the plain data of array_to_plain."""
    dtype, shape, content = plain
    return np.frombuffer(content, dtype).reshape(shape)
