"""Compare the fields of a simulation with those of a tape: the one check that resume, replay and comparisons share.

A restore puts the tape's own layout into the simulation's State. A step that was written for different fields then
reads unknown arrays: the result is an IndexError or a desync, and neither names the cause. Therefore everything that a
step can see must be equal, and is compared by name before the restore:

    dtype            different bytes, different arithmetic.
    shape            a simulation made for 6 rows would run on the tape's 5. It may take its sizes from its arrays, but
                     this is unknown here. It is refused, because it can be made with the recorded sizes.
    shape of a row   State.mark counts rows. With different row axes the marks name different elements, and a resumed
                     tape would miss changes.
    owner            a column moves and grows with its table, a blob has a length, a field has neither.

Properties of the layout alone are not compared, since the restore takes them from the tape: the order of the fields,
the hot fields, and the capacities of tables and blobs. Tables and blobs may be of any length.

A simulation that keeps its state elsewhere (save and load, or an adapter) builds its arena again after each step. Its
fields may come and go and change their shapes, and its load refuses a state that does not fit. For save and load one
check is possible before that: if the tape and the simulation each have a field that the other lacks, a different
program made the tape.
"""

from __future__ import annotations

from sim.kernel.hooks import HasAdapter, HasScenario, hook
from sim.kernel.schema import COUNTS_FIELD, Layout, Slot
from sim.kernel.simulation import ArenaOfSaved, Simulation

DIFFERENCES_SHOWN = 4
ADVICE = "make the simulation as it was made for the recording: the same version, the same sizes"


def ensure_same_fields(recorded: Layout, simulation: Simulation) -> None:
    """Refuse a simulation that cannot hold the states of a tape, before it is restored.

    recorded: the layout of the keyframe that it would be restored from.

    Raises TypeError, naming each field that differs; the simulation is unchanged.
    """
    present, owner = simulation.state.layout, _inside_scenario(simulation)
    if hook(owner, HasAdapter) is not None:
        return
    if isinstance(owner, ArenaOfSaved):
        differences = _name_differences(recorded, present)
        if not all(any(name in layout.slots for name in differences) for layout in (recorded, present)):
            return
    else:
        differences = field_differences(recorded, present)
    if differences:
        shown = [f"{name}: {text}" for name, text in differences.items()][:DIFFERENCES_SHOWN]
        more = [f"{len(differences) - len(shown)} more"] if len(differences) > len(shown) else []
        raise TypeError(f"the simulation has different fields than the tape: {'; '.join([*shown, *more])}; {ADVICE}")


def field_differences(recorded: Layout, present: Layout) -> dict[str, str]:
    """Describe each field that a step would see differently, by name: "expected …, got …"; empty if there is none."""
    differences = _name_differences(recorded, present)
    for name in _names(recorded) & _names(present):
        expected, got = _described(recorded.slots[name]), _described(present.slots[name])
        different = [part for part in expected if expected[part] != got[part]]
        if "kind" in different:
            different = ["kind"]  # The shapes of a field and of a blob do not compare.
        if different:
            differences[name] = (
                f"expected {', '.join(expected[part] for part in different)}, "
                f"got {', '.join(got[part] for part in different)}"
            )
    return dict(sorted(differences.items()))


def _inside_scenario(simulation: object) -> object:
    """The simulation inside a scenario: it decides how the state is kept."""
    while hook(simulation, HasScenario) is not None and hasattr(simulation, "inner"):
        simulation = simulation.inner
    return simulation


def _names(layout: Layout) -> set[str]:
    return {*layout.slots} - {COUNTS_FIELD}  # Its length is the number of tables and blobs, which are compared.


def _name_differences(recorded: Layout, present: Layout) -> dict[str, str]:
    missing = dict.fromkeys(
        sorted(_names(recorded) - _names(present)), "expected by the tape, missing in the simulation"
    )
    return missing | dict.fromkeys(sorted(_names(present) - _names(recorded)), "not on the tape")


def _described(slot: Slot) -> dict[str, str]:
    """The properties of a field that a step can see, in words."""
    if slot.owner is None:
        rows = slot.shape[len(slot.rows_shape) :]
        return {"kind": "a field", "dtype": str(slot.dtype), "shape": f"shape {slot.shape}", "rows": f"rows of {rows}"}
    kind = "a blob" if slot.owner == slot.name else f"a column of table {slot.owner}"
    return {"kind": kind, "dtype": str(slot.dtype), "shape": f"rows of shape {slot.shape[1:]}", "rows": ""}
