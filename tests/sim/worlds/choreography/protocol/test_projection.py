"""The projection of each construct of a protocol to each role, computed by hand."""

from __future__ import annotations

from typing import Any

import pytest

from sim.kernel.registry import ConfigError
from sim.worlds.choreography import Choreography
from sim.worlds.choreography.protocol.builder import again, branch, choice, end, loop, protocol, send
from sim.worlds.choreography.protocol.projection import Choose, End, Node, Receive, Send

AB, ABC = ["A", "B"], ["A", "B", "C"]


def show(node: Node) -> str:
    """A node in short form: ! sends, ? receives, & is offered, + chooses; then the next places."""
    match node:
        case Send():
            return f"!{node.to} {node.label} → {node.next}"
        case Receive():
            branches = ", ".join(f"{label} → {after}" for label, (_, after) in node.branches.items())
            return f"{'&' if node.offered else '?'}{node.sender} {branches}"
        case Choose():
            return f"+{node.to} " + ", ".join(f"{label} → {after}" for label, _, after in node.branches)
    assert isinstance(node, End)
    return "end"


def programs(roles: list[str], *steps: dict[str, Any]) -> list[list[str]]:
    """The program of each role, in short form."""
    world = Choreography({"protocol": protocol(roles, *steps)})
    return [[show(node) for node in program] for program in world.programs]


def test_a_message_is_sent_by_one_role_and_received_by_one() -> None:
    """A sends to B, B sends to C; the third role has no node for it."""
    assert programs(ABC, send("A", "B", "x"), send("B", "C", "y")) == [
        ["!1 x → 1", "end"],
        ["?0 x → 1", "!2 y → 2", "end"],
        ["?1 y → 1", "end"],
    ]


def test_a_choice_is_chosen_by_one_and_offered_to_one() -> None:
    """Both continue after the choice, where the branches meet again."""
    steps = choice("A", "B", branch("yes", send("B", "A", "x")), branch("no")), send("A", "B", "last")
    assert programs(AB, *steps) == [
        ["+1 yes → 1, no → 2", "?1 x → 2", "!1 last → 3", "end"],
        ["&0 no → 1, yes → 2", "?0 last → 3", "!0 x → 1", "end"],
    ]


def test_a_third_role_with_equal_steps_in_all_branches_need_not_learn_the_choice() -> None:
    """Plain merge: C takes the same steps in each branch, also after a message between others."""
    step = choice("A", "B", branch("yes", send("B", "C", "x")), branch("no", send("B", "C", "x")))
    assert programs(ABC, step)[2] == ["?1 x → 1", "end"]
    step = choice("A", "B", branch("l", send("C", "A", "x")), branch("r", send("C", "A", "x")))
    assert programs(ABC, step)[2] == ["!0 x → 1", "end"]


def test_a_third_role_learns_the_choice_by_labels_of_one_sender() -> None:
    """Full merge: the labels are joined, each with its own steps; after a common label, the steps are merged."""
    at_once = choice(
        "A", "B", branch("yes", send("A", "C", "go"), send("C", "A", "x")), branch("no", send("A", "C", "stop"))
    )
    assert programs(ABC, at_once)[2] == ["&0 go → 1, stop → 2", "!0 x → 2", "end"]
    later = choice(
        "A",
        "B",
        branch("yes", send("A", "C", "both"), send("A", "C", "go")),
        branch("no", send("A", "C", "both"), send("A", "C", "stop")),
    )
    assert programs(ABC, later)[2] == ["?0 both → 1", "&0 go → 2, stop → 2", "end"]


def test_a_bounded_loop_is_unrolled() -> None:
    """Its steps appear three times; a role that takes no part in it skips it."""
    assert programs(ABC, loop("three", send("A", "B", "x"), times=3), send("B", "C", "y")) == [
        ["!1 x → 1", "!1 x → 2", "!1 x → 3", "end"],
        ["?0 x → 1", "?0 x → 2", "?0 x → 3", "!2 y → 4", "end"],
        ["?1 y → 1", "end"],
    ]


def test_an_endless_loop_goes_back_to_its_first_step() -> None:
    """A branch that does not continue it leads to the step after it."""
    assert programs(AB, loop("again", send("A", "B", "x"), again("again"))) == [["!1 x → 0"], ["?0 x → 0"]]
    steps = loop("more", choice("A", "B", branch("go", again("more")), branch("stop"))), send("B", "A", "bye")
    assert programs(AB, *steps) == [
        ["+1 go → 0, stop → 1", "?1 bye → 2", "end"],
        ["&0 go → 0, stop → 1", "!0 bye → 2", "end"],
    ]


def test_loops_in_loops() -> None:
    """The inner one may continue the outer one."""
    inner = loop("inner", choice("A", "B", branch("in", again("inner")), branch("out", again("outer"))))
    assert programs(AB, loop("outer", send("B", "A", "x"), inner)) == [
        ["?1 x → 1", "+1 in → 1, out → 0"],
        ["!0 x → 1", "&0 in → 1, out → 0"],
    ]


def test_an_end_skips_the_steps_after_it() -> None:
    """The end is in one branch; the other branch continues."""
    steps = choice("A", "B", branch("stop", end()), branch("go")), send("A", "B", "x")
    assert programs(AB, *steps) == [
        ["+1 stop → 1, go → 2", "end", "!1 x → 1"],
        ["&0 go → 1, stop → 2", "?0 x → 2", "end"],
    ]


def test_a_role_skips_an_endless_loop_of_others() -> None:
    """C takes no part in the loop of A and B, and continues after it."""
    steps = loop("l", choice("A", "B", branch("go", again("l")), branch("stop"))), send("B", "C", "x")
    assert programs(ABC, *steps)[2] == ["?1 x → 1", "end"]


SAME = {"payload": "number", "constant": 1}
REFUSED: list[tuple[list[str], list[dict[str, Any]], str]] = [
    (
        ABC,
        [choice("A", "B", branch("yes", send("B", "C", "x")), branch("no"))],
        (
            "protocol.steps[0].branches: C cannot learn which branch A chose: it receives 'x' from B after 'yes' and ends "
            "after 'no'"
        ),
    ),
    (
        ABC,
        [choice("A", "B", branch("yes", send("C", "B", "x")), branch("no", send("C", "B", "y")))],
        (
            "protocol.steps[0].branches: C cannot learn which branch A chose: it sends 'x' to B after 'yes' and sends 'y' "
            "to B after 'no'"
        ),
    ),
    (
        ABC,
        [choice("A", "B", branch("yes", send("A", "C", "x")), branch("no", send("B", "C", "x")))],
        (
            "protocol.steps[0].branches: C cannot learn which branch A chose: it receives 'x' from A after 'yes' and "
            "receives 'x' from B after 'no'"
        ),
    ),
    (
        ABC,
        [choice("A", "B", branch("l", send("A", "C", "x")), branch("r", send("A", "C", "x", **SAME)))],
        (
            "protocol.steps[0].branches: C cannot learn which branch A chose: it receives 'x' from A after 'l' and "
            "receives 'x' with a number from A after 'r'"
        ),
    ),
    (
        ABC,
        [loop("l", send("B", "C", "x"), choice("A", "B", branch("go", again("l")), branch("stop")))],
        (
            "protocol.steps[0].steps[1].branches: C cannot learn which branch A chose: it restarts the loop l after 'go' "
            "and ends after 'stop'"
        ),
    ),
    (
        ABC,
        [
            loop("l", choice("A", "B", branch("go", again("l")), branch("stop"), branch("end", end()))),
            send("C", "A", "x"),
        ],
        "protocol.steps[0]: C cannot learn how the loop l ends: it ends or sends 'x' to A",
    ),
    (
        AB,
        [loop("l", loop("m", loop("n", send("A", "B", "x"), times=100), times=100), times=100)],
        "protocol: A has more than 65536 steps with its loops unrolled",
    ),
]


@pytest.mark.parametrize(("roles", "steps", "message"), REFUSED, ids=[str(n) for n in range(len(REFUSED))])
def test_a_protocol_that_a_role_cannot_follow_is_refused(
    roles: list[str], steps: list[dict[str, Any]], message: str
) -> None:
    """One line names the step, the role, and the two branches that it cannot distinguish."""
    with pytest.raises(ConfigError) as caught:
        programs(roles, *steps)
    assert str(caught.value) == message
