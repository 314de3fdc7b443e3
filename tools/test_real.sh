#!/bin/sh
# Run the tests of real cases, each package in an environment of its own: they are old, and exclude each other.
set -eu
cd "$(dirname "$0")/.."
for case in "crafter==1.8.3" "mesa==0.8.6" "highway-env==1.7 numpy==1.26.4 pandas<2.3"; do
	venv=".venv-real-${case%%=*}"
	tools/make_venv.sh "$venv"
	# shellcheck disable=SC2086 # Several packages.
	"$venv/bin/pip" install --quiet --editable . pytest hypothesis sybil $case
	"$venv/bin/pytest" -m "" tests/replayer/diagnose/real_cases
done
