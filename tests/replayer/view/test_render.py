"""`replay render`: pictures, GIFs and videos of what the page shows."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from optional_packages import LazyModule, needs

import recorder
import replayer.commands.main
from recorder.console.app import run_app
from replayer.view.drawing.colour_maps import colours_of, table

from oracle.command_lines import assert_one_line
from project_paths import ROOT
from small_worlds import Walkers, record
from viewed_worlds import HEIGHT, TICKS, WIDTH, Camp, DriftingPond, Pond, inputs_of_pond, pond_at

needs("PIL", "imageio_ffmpeg")
image = LazyModule("PIL.Image")

SIM = ("--sim", "viewed_worlds:Pond")
VIRIDIS_LOWEST, VIRIDIS_HIGHEST = (0x44, 0x01, 0x54), (0xFD, 0xE7, 0x25)
GROUND = (0xE9, 0xEC, 0xEF)
CELL = 60  # Pixels: 480 for 8 cells.


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pond of 60 ticks."""
    path = tmp_path_factory.mktemp("render") / "pond.tape"
    record(path, Pond(), inputs_of_pond(TICKS), keyframe_interval_ticks=20)
    return path


def render(*arguments: object) -> int:
    """The exit code of the command."""
    words = ["render", *map(str, arguments)]
    return run_app(replayer.commands.main.load(words), words)


def cells_of(picture: object) -> np.ndarray:
    """The colour in the middle of each cell of the one map, (height, width, 3)."""
    pixels = np.asarray(picture.convert("RGB"))  # type: ignore[attr-defined]
    top, left = 10 + 20, 10
    return pixels[top + CELL // 2 : top + HEIGHT * CELL : CELL, left + CELL // 2 : left + WIDTH * CELL : CELL]


def test_rings_of_all_kinds_have_one_scale(tmp_path: Path) -> None:
    """The ring of a thing of a quarter of the size has a quarter of the area: half the width."""
    with recorder.record(Camp(), tmp_path / "camp.tape", trial_ms=0) as played:
        played.step()
    assert render(tmp_path / "camp.tape", "--ticks", 1, "-o", tmp_path / "a.png", "--sim", "viewed_worlds:Camp") == 0
    with image.open(tmp_path / "a.png") as picture:
        is_line = (np.asarray(picture.convert("RGB"))[30:510, 10:490] == 0).all(axis=2)
    scout, soldier = (np.ptp(np.flatnonzero(part.any(axis=0))) for part in (is_line[:240], is_line[240:]))
    assert soldier / 2 - 1 <= scout <= soldier / 2 + 1


@pytest.mark.parametrize("tick", ["41", "-20"])
def test_a_picture_has_the_values_of_the_tick(tape: Path, tmp_path: Path, tick: str) -> None:
    """The highest value has the brightest colour, nothing has that of the ground, and no other cell has either."""
    output = tmp_path / "tick.png"
    assert render(tape, "--ticks", tick, "-o", output, "--hide", "frogs", *SIM) == 0
    with image.open(output) as picture:
        water, colours = pond_at(41).state["water"], cells_of(picture)
    assert ((colours == VIRIDIS_HIGHEST).all(axis=2) == (water == water.max())).all()
    assert ((colours == GROUND).all(axis=2) == (water == 0)).all()


def test_a_map_has_a_colour_bar(tape: Path, tmp_path: Path) -> None:
    """From the colour of nothing to that of the highest value, and in between colours that get lighter."""
    assert render(tape, "--ticks", 41, "-o", tmp_path / "tick.png", *SIM) == 0
    with image.open(tmp_path / "tick.png") as picture:
        line = np.asarray(picture.convert("RGB"))[10 + 7].astype(int)
    last = int(np.flatnonzero(np.abs(line - VIRIDIS_HIGHEST).max(axis=1) < 6)[-1])
    bar = line[last - 95 : last + 1]
    assert np.abs(bar[2] - VIRIDIS_LOWEST).max() < 12
    assert (np.diff(bar[3:, 1]) >= 0).all()


@pytest.mark.parametrize("scheme", [[], ["--dark"]])
def test_the_legend_has_the_colour_that_nothing_has(tape: Path, tmp_path: Path, scheme: list[str]) -> None:
    """A square of the ground between 0 and the bar."""
    output = tmp_path / "tick.png"
    assert render(tape, "--tick", 41, "-o", output, "--hide", "frogs", *SIM, *scheme) == 0
    with image.open(output) as picture:
        line = np.asarray(picture.convert("RGB"))[10 + 7].astype(int)
        (nothing,) = np.unique(cells_of(picture)[pond_at(41).state["water"] == 0], axis=0).tolist()
    begin = int(np.flatnonzero(np.abs(line - VIRIDIS_LOWEST).max(axis=1) < 3)[0])
    assert (line[begin - 12 : begin - 7] == nothing).all()


def test_zero_within_a_scale_has_the_colour_of_its_place() -> None:
    """A tick without values below 0, in a film that has some: its zeros are no ground."""
    colours = colours_of("viridis", 255, (0.0, 4.0), (-4.0, 4.0), np.array(GROUND, np.uint8))
    assert colours[0].tolist() == table("viridis")[127].tolist()
    assert colours_of("viridis", 255, (0.0, 4.0), (0.0, 8.0), np.array(GROUND, np.uint8))[0].tolist() == list(GROUND)


def test_one_tick_may_be_named_as_in_the_other_commands(tape: Path, tmp_path: Path) -> None:
    """seek and explain take --tick."""
    assert render(tape, "--tick", 41, "-o", tmp_path / "a.png", *SIM) == 0
    assert render(tape, "--ticks", 41, "-o", tmp_path / "b.png", *SIM) == 0
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_points_are_where_they_are(tape: Path, tmp_path: Path) -> None:
    """Rings in the colour of their kind around the centres of the frogs' cells, and nowhere else."""
    with_frogs, without = tmp_path / "with.png", tmp_path / "without.png"
    assert render(tape, "--ticks", 41, "-o", with_frogs, *SIM) == 0
    assert render(tape, "--ticks", 41, "-o", without, "--hide", "frogs", *SIM) == 0
    with image.open(with_frogs) as one, image.open(without) as other:
        bottom = 30 + HEIGHT * CELL  # Below the map there is the legend.
        pixels, plain = np.asarray(one)[:bottom], np.asarray(other)[:bottom]
    rows, columns = np.nonzero((pixels != plain).any(axis=2))
    ringed = {((x - 10) // CELL, (y - 30) // CELL) for y, x in zip(rows.tolist(), columns.tolist(), strict=True)}
    state = pond_at(41).state
    assert ringed == set(zip(state["frogs.x"].tolist(), state["frogs.y"].tolist(), strict=True))
    assert (pixels[rows, columns] == (0xE6, 0x9F, 0x00)).all(axis=1).any()


def below_the_map(path: Path, tmp_path: Path, sim: str, *arguments: object) -> np.ndarray:
    """The pixels below the map of the rendered tick 1."""
    output = tmp_path / "below.png"
    assert render(path, "--ticks", 1, "-o", output, "--sim", sim, *arguments) == 0
    with image.open(output) as picture:
        return np.asarray(picture.convert("RGB"))[30 + 480 :]


def test_points_have_a_legend(tmp_path: Path) -> None:
    """Below the map: a ring in the colour of each kind that is drawn, and no line for a tape whose points are hidden."""
    with recorder.record(Camp(), tmp_path / "camp.tape", trial_ms=0) as played:
        played.step()
    path, sim = tmp_path / "camp.tape", "viewed_worlds:Camp"
    both = below_the_map(path, tmp_path, sim)
    one = below_the_map(path, tmp_path, sim, "--hide", "soldiers")
    none = below_the_map(path, tmp_path, sim, "--hide", "soldiers", "--hide", "scouts")
    orange, blue = (0xE6, 0x9F, 0x00), (0x56, 0xB4, 0xE9)
    assert [[(part == colour).all(axis=2).any() for colour in (orange, blue)] for part in (both, one, none)] == [
        [True, True], [True, False], [False, False],
    ]  # fmt: skip
    assert len(both) == len(one) == len(none) + 20


def test_a_long_legend_has_several_lines() -> None:
    """Each entry fits into the room; the counts of a tick move nothing."""
    from PIL import ImageFont

    from replayer.view.drawing.point_legend import PointLegend

    font = ImageFont.load_default(13)
    legend = PointLegend({kind: f"kind of point number {kind}" for kind in range(6)}, {0: 12_345}, 4.0)
    assert legend.height(font, 480) == 60
    assert legend.height(font, 4800) == 20
    assert PointLegend({}, {}, 4.0).height(font, 480) == 0


def test_one_scale_for_all_ticks_or_each_its_own(tape: Path, tmp_path: Path) -> None:
    """By default a value has one colour in all pictures of a GIF."""
    for options, is_own in (((), False), (("--own-scale",), True)):
        output = tmp_path / "run.gif"
        assert render(tape, "--ticks", "1..60", "--every", 59, "-o", output, "--hide", "frogs", *SIM, *options) == 0
        with image.open(output) as film:
            assert film.n_frames == 2
            assert film.info["duration"] == 30
            brightest = cells_of(film)[pond_at(1).state["water"] == 3].astype(int)
        assert (np.abs(brightest - VIRIDIS_HIGHEST).max() < 12) == is_own


@pytest.mark.parametrize("suffix", [".mp4", ".webm"])
def test_a_video_has_each_tick(tape: Path, tmp_path: Path, suffix: str) -> None:
    """As many pictures as ticks, each with the cells of its tick."""
    import imageio_ffmpeg

    output = tmp_path / f"run{suffix}"
    assert render(tape, "--ticks", "30..41", "--fps", 25, "-o", output, "--hide", "frogs", *SIM) == 0
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-i", output, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    decoded = subprocess.run(command, capture_output=True, check=True, timeout=60)
    assert b"25 fps" in decoded.stderr
    width, height = WIDTH * CELL + 20, HEIGHT * CELL + 60
    frames = np.frombuffer(decoded.stdout, np.uint8).reshape(-1, height, width, 3)
    assert len(frames) == 12
    for tick in (30, 41):
        colours = cells_of(image.fromarray(frames[tick - 30])).astype(int)
        is_ground = np.abs(colours - GROUND).max(axis=2) < 24
        assert (is_ground == (pond_at(tick).state["water"] == 0)).all()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--ticks", "1", "-o", "a.jpg"], "a.jpg: expected a name that ends in .png, .gif, .mp4, .webm"),
        (["--ticks", "1..2", "-o", "a.png"], "--ticks 1..2: a PNG holds one tick: give a name that ends in .gif, .mp4"),
        (["--ticks", "x", "-o", "a.png"], "--ticks: expected a tick, or the first and the last as A..B, got 'x'"),
        (["--ticks", "9..3", "-o", "a.gif"], "--ticks 9..3: expected the first tick before the last one"),
        (["--ticks", "1", "--size", "8193", "-o", "a.png"], "--size 8,193: expected at most 8,192"),
        (["--ticks", "1...3", "-o", "a.gif"], "--ticks: expected a tick"),
        (["--ticks", "61", "-o", "a.png"], "has ticks 0 to 60"),
        (["--ticks", "-62", "-o", "a.png"], "has ticks 0 to 60"),
        (["--ticks", "1", "-o", "a.png", "--layer", "fire"], "no layer 'fire'; the layers are water"),
        (["--ticks", "1", "-o", "a.png", "--hide", "fish"], "no points 'fish'; the kinds are frogs"),
        (["--ticks", "1", "-o", "a.png", "--map", "jet"], "jet"),
        (["--ticks", "1", "-o", "a.gif", "--fps", "0"], "fps"),
        (["--ticks", "1", "-o", "nowhere/a.png"], "nowhere/a.png"),
    ],
)
def test_a_mistake_gets_one_line(
    capsys: pytest.CaptureFixture[str],
    tape: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    said: str,
) -> None:
    """And no file."""
    monkeypatch.chdir(tmp_path)
    assert render(tape, *arguments, *SIM) not in {0, 1}
    assert_one_line(capsys.readouterr(), said)
    assert list(tmp_path.iterdir()) == []


def test_without_a_map_or_a_simulation_it_says_so(
    capsys: pytest.CaptureFixture[str], tape: Path, tmp_path: Path
) -> None:
    """In one line each."""
    flat = tmp_path / "flat.tape"
    record(flat, Walkers(), [None] * 3)
    assert render(flat, "--ticks", 1, "-o", tmp_path / "a.png", "--sim", "small_worlds:Walkers") == 2
    assert_one_line(capsys.readouterr(), "no field of two dimensions")
    assert render(tape, "--ticks", 1, "-o", tmp_path / "a.png") == 2
    assert_one_line(capsys.readouterr(), "--sim")


def test_a_desync_leaves_the_old_file(capsys: pytest.CaptureFixture[str], tape: Path, tmp_path: Path) -> None:
    """A tick that is not as recorded is not drawn."""
    output = tmp_path / "a.gif"
    output.write_bytes(b"old")
    code = render(tape, "--ticks", "0..19", "-o", output, "--sim", f"viewed_worlds:{DriftingPond.__name__}")
    assert code == 1
    assert "desync" in capsys.readouterr().err.lower()
    assert [path.name for path in tmp_path.iterdir()] == ["a.gif"]
    assert output.read_bytes() == b"old"


def test_it_reports_as_json(capsys: pytest.CaptureFixture[str], tape: Path, tmp_path: Path) -> None:
    """The range, the pictures and the layers."""
    output = tmp_path / "a.gif"
    assert render(tape, "--ticks", "0..-1", "--every", 25, "-o", output, "--json", *SIM) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts == {
        "path": str(output), "first_tick": 0, "last_tick": 50, "pictures": 3, "bytes": output.stat().st_size,
        "layers": ["water"], "not_shown": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("module", "package", "suffix"), [("PIL", "pillow", "png"), ("imageio_ffmpeg", "imageio-ffmpeg", "mp4")]
)
@pytest.mark.seldom(0.18)
def test_a_missing_package_is_one_line(tape: Path, tmp_path: Path, module: str, package: str, suffix: str) -> None:
    """With the command that installs it. A GIF needs no program for videos."""
    program = f"import sys; sys.modules[{module!r}] = None\nfrom replayer.commands.main import main; main()"
    options = ["--ticks", "1", *SIM]

    def run(output: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", program, "render", str(tape), "-o", str(tmp_path / output), *options]
        path = f"{ROOT / 'src'}:{ROOT / 'tests/support'}"
        return subprocess.run(command, capture_output=True, text=True, check=False, env={"PYTHONPATH": path})

    finished = run(f"a.{suffix}")
    assert (finished.returncode, finished.stdout) == (2, "")
    (line,) = finished.stderr.splitlines()
    assert f"rendering .{suffix} files needs {package}: " in line
    if module == "imageio_ffmpeg":
        assert run("a.gif").returncode == 0


def test_the_colours_are_those_of_the_page() -> None:
    """The stops of each map, the colours of points, and the mix between two stops."""
    from replayer.view.drawing.colour_maps import CATEGORIES, POINT_COLOURS, STOPS, table

    script = (ROOT / "src/replayer/view/page/colours.js").read_text()
    stops = dict(re.findall(r"^  (\w+): '([0-9a-f]+)',$", script, re.MULTILINE))
    assert {name: stops[name] for name in STOPS} == STOPS
    named = re.search(r"POINT_COLOURS = \[(.*?)\]", script)
    assert named is not None
    assert tuple(re.findall(r"#[0-9a-f]{6}", named[1])) == POINT_COLOURS
    few = re.search(r"CATEGORIES = \[(.*?)\]", script)
    assert few is not None
    assert tuple(re.findall(r"[0-9a-f]{6}", few[1])) == CATEGORIES
    assert tuple(table("viridis")[0]) == VIRIDIS_LOWEST
    assert tuple(table("viridis")[255]) == VIRIDIS_HIGHEST
    assert table("grey")[51].tolist() == [64] * 3  # A fifth of the way from the third stop, 60, to the fourth, 82.


class Painter:
    """Has a picture in colours, and narrow maps with long names."""

    def __init__(self) -> None:
        self.image = np.zeros((6, 8, 3), np.uint8)
        self.opaque_picture = np.zeros((6, 8, 4), np.uint8)
        self.temperature_of_the_long_and_narrow_canal = np.zeros((40, 4))
        self.pollution_of_the_long_and_narrow_canal = np.zeros((40, 4))

    def step(self, seed: int) -> None:
        self.image[:] = (np.arange(144).reshape(6, 8, 3) * 37 + seed) % 256
        self.opaque_picture[:] = (np.arange(192).reshape(6, 8, 4) * 59 + seed) % 256
        self.temperature_of_the_long_and_narrow_canal[:] = np.arange(160).reshape(40, 4) * 1.23e-5 + seed
        self.pollution_of_the_long_and_narrow_canal[:] = np.arange(160).reshape(40, 4) * 1.23e5 + seed


@pytest.fixture(scope="module")
def painted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tape of a painter, of 3 steps."""
    path = tmp_path_factory.mktemp("painted") / "painter.tape"
    with recorder.record(Painter(), path, quiet=True) as painter:
        for seed in range(3):
            painter.step(seed)
    return path


@pytest.mark.parametrize("name", ["image", "opaque_picture"])
def test_a_field_of_colours_is_shown_in_its_colours(painted: Path, tmp_path: Path, name: str) -> None:
    alone = Painter()
    alone.step(0)
    alone.step(1)
    output = tmp_path / "tick.png"
    assert (
        render(painted, "--ticks", 2, "-o", output, "--layer", f"Painter.{name}", "--sim", f"{__name__}:Painter") == 0
    )
    with image.open(output) as picture:
        assert (cells_of(picture) == getattr(alone, name)[..., :3]).all()


def test_titles_do_not_reach_into_each_other(painted: Path, tmp_path: Path) -> None:
    output, width = tmp_path / "tick.png", 0
    layers = [f"Painter.{name}" for name in vars(Painter()) if name.endswith("canal")]
    words = [word for name in layers for word in ("--layer", name)]
    assert render(painted, "--ticks", 2, "-o", output, *words, "--sim", f"{__name__}:Painter") == 0
    with image.open(output) as picture:
        pixels = np.asarray(picture.convert("RGB"))
        width = (picture.width - 30) // 2
    gap = pixels[:30, 10 + width : 20 + width]
    assert (gap == pixels[0, 0]).all()
    assert (pixels[10:30, 20 + width :] != pixels[0, 0]).any()
