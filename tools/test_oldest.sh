#!/bin/sh
# Run the tests with the oldest versions of our dependencies that pyproject.toml allows. This verifies its lower bounds.
set -eu
cd "$(dirname "$0")/.."
venv=.venv-oldest
tools/make_venv.sh "$venv"
"$venv/bin/pip" install --quiet uv
VIRTUAL_ENV="$venv" "$venv/bin/uv" pip install --quiet --resolution lowest-direct --editable .
VIRTUAL_ENV="$venv" "$venv/bin/uv" pip install --quiet --group test "pyarrow<19"  # Later ones need a newer NumPy.
tools/get_kaitai.sh "$venv"
"$venv/bin/pip" list 2>/dev/null | grep -iE "^(attrs|cattrs|cyclopts|google-crc32c|lz4|msgpack|numpy|rich|xxhash) "
# Tests and pages of other packages are left out, and the benches: the newest of those packages need a newer NumPy.
"$venv/bin/pytest" -n 2 --dist worksteal tests --ignore=tests/replayer/datasets --ignore=tests/replayer/export/viewers \
	--ignore=tests/sim/adapters --ignore=tests/bench
"$venv/bin/pytest" README.md docs --ignore=docs/datasets.md --ignore=docs/streaming.md
