#!/bin/sh
# Mutate the format package and run the quick half of its tests against each mutant. Takes hours on two cores.
# Works in .mutants (a copy, since mutmut rewrites sources) and continues an earlier run.
# The results: .mutants/venv/bin/mutmut results
set -eu
cd "$(dirname "$0")/../.."
folder=.mutants
mkdir -p "$folder"
cp -R src tests conftest.py docs tools README.md SPEC.md CHANGELOG.md tape.ksy Makefile examples "$folder"
[ -x "$folder/venv/bin/mutmut" ] || {
    tools/make_venv.sh "$folder/venv"
    "$folder/venv/bin/pip" install --quiet --group test --editable . "mutmut==3.8.1"
}
# The campaigns of damage take minutes for each mutant and are left out, and properties have fewer examples.
cat > "$folder/pyproject.toml" <<'END'
[tool.mutmut]
source_paths = ["src/recorder/format/"]
also_copy = ["src", "tests", "conftest.py", "README.md", "SPEC.md", "docs", "tools", "tape.ksy"]
pytest_add_cli_args_test_selection = [
    "tests/recorder/format", "tests/recorder/format/test_golden_tapes.py", "tests/recorder/format/test_second_reader.py",
]
pytest_add_cli_args = [
    "-x", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestUnraisableExceptionWarning",
    "--ignore=tests/recorder/format/test_flips_and_cuts.py", "--ignore=tests/recorder/format/test_smears.py",
    "--ignore=tests/recorder/format/test_hostile_figures.py",
    "--deselect=tests/recorder/format/recording/test_assembly.py::test_every_cut_of_every_file",
    "--deselect=tests/recorder/format/recording/test_assembly.py::test_every_cut_of_an_unsealed_last_file",
    "--deselect=tests/recorder/format/recording/test_assembly.py::test_any_damage_at_once",
    "--deselect=tests/recorder/format/recording/test_splices.py::test_blocks_moved_about",
    "--deselect=tests/recorder/format/recording/test_splices.py::test_a_complete_file_of_a_forged_run",
    "--deselect=tests/recorder/format/test_mended_mutations.py::test_every_failure_is_a_recording_error",
    "--deselect=tests/recorder/format/test_golden_tapes.py::test_there_are_golden_tapes_of_this_version",
]
END
cat >> "$folder/conftest.py" <<'END'

from hypothesis import settings  # noqa: E402

settings.register_profile("mutants", max_examples=12, deadline=None, derandomize=True, database=None)
settings.load_profile("mutants")
END
cd "$folder"
venv/bin/mutmut run --max-children "${1:-2}"
