"""A few specimens of several sets in each run: the tables of tools/campaigns/second_zoo.py have all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from second_zoo.specimen import EIGHTH, FIFTH, MARKER, NINTH, SEVENTH, SIXTH, THIRD, Specimen, read_specimens
from second_zoo.user_commands import KILLED, Answer, investigate, plain_truth
from second_zoo.verdict import judge

SPECIMENS = read_specimens()
# Compiling takes seconds; peers have no tape to verify.
QUICK = [one for one in SPECIMENS if not one.needs and not one.machine and one.kind != "peers"]
# verify ends at a step that raises where the recording has a state: it reports the error, and no tick of a desync.
RAISING = "census_default"
LATER = [one for one in read_specimens(folder=THIRD) if one.kind != "peers" and one.name != RAISING]

# A process a specimen, so that few are sampled: those whose tick is one tick, whatever the run.
NEWEST = [one for one in read_specimens(folder=FIFTH) if one.kind != "peers" and not one.needs and len(one.tick) < 2]

LATEST = [one for one in read_specimens(folder=SIXTH) if one.kind != "peers" and len(one.tick) < 2]

# Of what differs from run to run the tick is one of several.
SCRIPTED = [one for one in read_specimens(folder=SEVENTH) if not one.needs and (one.is_sound or len(one.tick) == 1)]
SCRIPTED = [one for one in SCRIPTED if one.family != "parties_apart" and one.name != "tide_peers"]

EIGHTH_SET = [one for one in read_specimens(folder=EIGHTH) if not one.needs and (one.is_sound or len(one.tick) == 1)]
# Of the loads of mine_shifts, whose threads sleep nearly alike, it is chance in which tick their order first differs; of
# theatre_cast it is the collector's, which ends the members of a WeakSet after as many objects as the recorder makes, too.
EIGHTH_SET = [
    one for one in EIGHTH_SET if one.family != "peers_apart" and one.name not in ("mine_shifts", "theatre_cast")
]

# The truth of others has the ticks of keyframes that a loop restored, or no path that verify alone can know.
NINTH_NAMES = {
    *("brewery_spoil", "canteen_tariff", "foundry_overflow", "lift_subclass", "lighthouse_log"),
    *("maze_reset_time", "mill_timezone", "norm_wrapper", "orchard_env", "postsort_towns", "scratch_numpy"),
}
NINTH_SET = [one for one in read_specimens(folder=NINTH) if one.name in NINTH_NAMES or one.is_sound]
NINTH_SET = [one for one in NINTH_SET if not one.needs and one.name != "s_peers_equal"]

# An order by addresses or by the hashes of texts, a clock, draws without a seed: in some runs the first tick is another one, or
# so many values differ that the one of the truth is cut off.
BY_CHANCE = {
    *("beehive_scouts", "brewery_spoil", "farm_irrigation", "gym_courier", "gym_warehouse"),
    *("marsh_frogs", "orchard_frost", "post_office"),
}
# No keyframe follows, or it has the truth's value again, or others differ there: it takes explain to tell the path.
TOLD_BY_EXPLAIN = {"chandler_stock", "gym_lift", "hospital_wards", "metro_dispatch", "night_patrol", "ski_slopes"}
NEWEST, SCRIPTED, EIGHTH_SET, NINTH_SET = (
    [one for one in some if one.name not in BY_CHANCE | TOLD_BY_EXPLAIN]
    for some in (NEWEST, SCRIPTED, EIGHTH_SET, NINTH_SET)
)


def named(name: str) -> Specimen:
    """One specimen."""
    return next(specimen for specimen in SPECIMENS if specimen.name == name)


def answer(name: str, output: str, code: int = 1) -> Answer:
    """What a command might have printed."""
    return Answer(name, f"replay {name}", code, output, 1.0)


@pytest.mark.sample(2)
@pytest.mark.parametrize("specimen", QUICK, ids=lambda specimen: specimen.name)
@pytest.mark.seldom(0.15)
def test_verify_is_right_about_a_planted_defect_and_silent_about_a_sound_program(
    specimen: Specimen, tmp_path: Path
) -> None:
    """The tick and the path are right, no cause is claimed that is not so, and the plain loop agrees."""
    assert_verify_is_right(specimen, tmp_path)


@pytest.mark.sample(1)
@pytest.mark.parametrize("specimen", LATER, ids=lambda specimen: specimen.name)
@pytest.mark.seldom(0.15)
def test_verify_is_right_about_the_third_set(specimen: Specimen, tmp_path: Path) -> None:
    """As of the second set."""
    assert_verify_is_right(specimen, tmp_path)


@pytest.mark.sample(1)
@pytest.mark.parametrize("specimen", NEWEST, ids=lambda specimen: specimen.name)
@pytest.mark.seldom(0.15)
def test_verify_is_right_about_the_fifth_set(specimen: Specimen, tmp_path: Path) -> None:
    """As of the second set."""
    assert_verify_is_right(specimen, tmp_path)


@pytest.mark.sample(1)
@pytest.mark.parametrize("specimen", LATEST, ids=lambda specimen: specimen.name)
@pytest.mark.seldom(0.15)
def test_verify_is_right_about_the_sixth_set(specimen: Specimen, tmp_path: Path) -> None:
    """As of the second set."""
    assert_verify_is_right(specimen, tmp_path)


@pytest.mark.sample(1)
@pytest.mark.parametrize("specimen", SCRIPTED, ids=lambda specimen: specimen.name)
@pytest.mark.seldom(0.15)
def test_verify_is_right_about_the_seventh_set(specimen: Specimen, tmp_path: Path) -> None:
    """As of the second set; its author confirmed the truth by plain loops that are not kept here."""
    assert_verify_tells(specimen, tmp_path)


@pytest.mark.sample(1)
@pytest.mark.parametrize("specimen", EIGHTH_SET, ids=lambda specimen: specimen.name)
@pytest.mark.seldom(0.15)
def test_verify_is_right_about_the_eighth_set(specimen: Specimen, tmp_path: Path) -> None:
    """As of the seventh set."""
    assert_verify_tells(specimen, tmp_path)


@pytest.mark.sample(1)
@pytest.mark.parametrize("specimen", NINTH_SET, ids=lambda specimen: specimen.name)
@pytest.mark.seldom(0.15)
def test_verify_is_right_about_the_ninth_set(specimen: Specimen, tmp_path: Path) -> None:
    """As of the seventh set."""
    assert_verify_tells(specimen, tmp_path)


def assert_verify_is_right(specimen: Specimen, tmp_path: Path) -> None:
    """See the test of the second set."""
    for part in ("plain", "asked"):
        (tmp_path / part).mkdir()
    truth = plain_truth(specimen, tmp_path / "plain")
    assert truth is None if specimen.is_sound else truth in specimen.tick
    assert_verify_tells(specimen, tmp_path / "asked")


def assert_verify_tells(specimen: Specimen, folder: Path) -> None:
    """The tick and the path are right, and nothing that is not so is said. folder: an empty one."""
    verdict = judge(specimen, investigate(specimen, folder, commands=("verify",)))

    assert (verdict.tick, verdict.path) == ((None, None) if specimen.is_sound else (True, True))
    assert verdict.false == []
    assert verdict.failures == []


def test_the_zoo_is_as_large_as_its_page_says_and_covers_all_kinds() -> None:
    """At least 60 defects and 30 sound programs: objects, own simulations, environments, peers, numba."""
    defects, sound = ([one for one in SPECIMENS if one.is_sound is kind] for kind in (False, True))
    assert len(defects) >= 60
    assert len(sound) >= 30
    assert {one.kind for one in defects} == {"object", "own", "env", "peers"}
    assert sum(one.needs == "numba" for one in defects) >= 3


def test_the_third_set_is_as_large_as_its_page_says() -> None:
    """At least 40 defects and 25 sound programs of each kind, none with the name of one of the second set."""
    later = read_specimens(folder=THIRD)
    defects, sound = ([one for one in later if one.is_sound is kind] for kind in (False, True))
    assert len(defects) >= 40
    assert len(sound) >= 25
    assert {one.kind for one in defects} == {one.kind for one in sound} == {"object", "own", "env", "peers"}
    assert not {one.name for one in later} & {one.name for one in SPECIMENS}


def test_the_fifth_set_is_as_large_as_its_page_says() -> None:
    """80 defects and 37 sound programs of each kind."""
    newest = read_specimens(folder=FIFTH)
    defects, sound = ([one for one in newest if one.is_sound is kind] for kind in (False, True))
    assert (len(defects), len(sound)) == (80, 37)
    assert {one.kind for one in defects} == {one.kind for one in sound} == {"object", "own", "env", "peers"}


def test_the_sixth_set_is_as_large_as_its_page_says() -> None:
    """46 defects and 22 sound programs of each kind, none with the name of one of the fifth set."""
    latest = read_specimens(folder=SIXTH)
    defects, sound = ([one for one in latest if one.is_sound is kind] for kind in (False, True))
    assert (len(defects), len(sound)) == (46, 22)
    assert {one.kind for one in defects} == {one.kind for one in sound} == {"object", "own", "env", "peers"}
    assert not {one.name for one in latest} & {one.name for one in read_specimens(folder=FIFTH)}


def test_the_seventh_set_is_as_large_as_its_page_says() -> None:
    """36 defects and 20 sound programs, none with the name of one of the sixth set; each has its commands."""
    scripted = read_specimens(folder=SEVENTH)
    defects, sound = ([one for one in scripted if one.is_sound is kind] for kind in (False, True))
    assert (len(defects), len(sound)) == (36, 20)
    assert all(one.kind == "scripted" and one.recorded and one.asked for one in scripted)
    assert not {one.name for one in scripted} & {one.name for one in read_specimens(folder=SIXTH)}


def test_the_eighth_set_is_as_large_as_its_page_says() -> None:
    """32 defects and 18 sound programs; each has its commands."""
    eighth = read_specimens(folder=EIGHTH)
    defects, sound = ([one for one in eighth if one.is_sound is kind] for kind in (False, True))
    assert (len(defects), len(sound)) == (32, 18)
    assert all(one.kind == "scripted" and one.recorded and one.asked for one in eighth)


def test_the_ninth_set_is_as_large_as_its_page_says() -> None:
    """32 defects and 20 sound programs; each has its commands."""
    ninth = read_specimens(folder=NINTH)
    defects, sound = ([one for one in ninth if one.is_sound is kind] for kind in (False, True))
    assert (len(defects), len(sound)) == (32, 20)
    assert all(one.kind == "scripted" and one.recorded and one.asked for one in ninth)


def test_the_markers_of_lines_are_not_in_what_is_recorded(tmp_path: Path) -> None:
    """A tool that quotes a line could otherwise be told where it is."""
    specimen = named("harbour")
    specimen.lay_out(tmp_path)
    text = (tmp_path / "harbour.py").read_text()

    assert MARKER in specimen.source
    assert MARKER not in text
    assert [text.splitlines()[number - 1].strip() for _, number in specimen.marked_lines] == ["self.x += self.wind"]


def test_a_right_answer_is_judged_right() -> None:
    """Tick, path, line and cause, with the digits of a large tick."""
    verified = "run.tape: DESYNC at tick 21; all ticks before it match\n  fields that differ at tick 21: x\n"
    explained = (
        "cause: this line reads hidden state\n  harbour.py:13 in Harbour.step\n  outside the state: self.wind:\n"
    )
    verdict = judge(named("harbour"), [answer("verify", verified), answer("explain", explained)])

    assert (verdict.tick, verdict.path, verdict.line, verdict.cause) == (True, True, True, True)
    assert (verdict.false, verdict.failures, verdict.told_by) == ([], [], ["explain"])


def test_a_wrong_answer_is_judged_wrong() -> None:
    """Another tick, another line, a cause that is only quoted or listed as not tested."""
    verified = "run.tape: DESYNC at tick 20\n  - hidden state: wind\n  ? wind: not tested\n"
    explained = "cause: this line reads\n  numpy.py:1\n  harbour.py:12 in Harbour.step\n      self.x += self.wind\n"
    verdict = judge(named("harbour"), [answer("verify", verified), answer("explain", explained)])

    assert (verdict.tick, verdict.path, verdict.line, verdict.cause) == (False, False, False, False)
    assert verdict.reported == "tick 20, line harbour.py:12"
    assert verdict.false == [
        "verify: refutes hidden state: '- hidden state: wind'",
        "explain: names harbour.py:12 as the cause",
    ]


@pytest.mark.parametrize(
    ("name", "output", "count"),
    [
        ("barracks", "cause: this line reads hidden state", 1),
        ("harbour", "cause: this line reads hidden state", 0),
        ("sailor", "    ! a different environment: SAILOR_KNOTS", 0),
        ("harbour", "    ! a different environment: PATH", 1),
        ("harbour", "    - a different environment: compared and equal", 0),
        ("harbour", "units[0].hp: recorded 3, replayed 3", 1),
        ("harbour", "units[0].hp: recorded 3, replayed 31", 0),
        ("harbour", "  outside the state:\n      A  a Wind\n      B  a Wind", 1),
        ("harbour", "  outside the state:\n      A  a Wind\n      B  a Window", 0),
        ("highway", "note: all variants give the same state\nit gives different states in different runs", 1),
        ("gatekeeper", "run.tape: DESYNC at tick 3", 1),
    ],
)
def test_a_sentence_that_is_not_so_is_counted(name: str, output: str, count: int) -> None:
    """Claims of a cause that the truth does not have, equal sides, contradictions, alarms."""
    assert len(judge(named(name), [answer("explain", output)]).false) == count


def test_a_crash_and_a_hang_are_counted() -> None:
    """A traceback of a command, a signal, and a command that was ended; not the traceback of a refused recording."""
    refused = answer("record", "Traceback (most recent call last)")
    crashed = answer("verify", "Traceback (most recent call last)")
    verdict = judge(named("harbour"), [refused, crashed, answer("explain", "", KILLED), answer("check", "", -11)])

    assert verdict.failures == ["verify: crashes", "explain: hangs", "check: signal 11"]
    assert judge(named("harbour"), [refused]).failures == ["it cannot be recorded"]
