#!/bin/sh
# Make a virtual environment in the folder $1 with $PYTHON (python3) and a pip that supports dependency groups.
# Debian has the venv module's pip in a separate package. If it is missing, it is installed.
set -eu
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "expected Python 3.11 or newer, got $("$python" --version 2>&1) ($python); try: make PYTHON=python3.12" >&2
    exit 2
}
if [ ! -x "$1/bin/pip" ]; then
    "$python" -m venv "$1" 2>/dev/null || {
        rm -rf "$1"
        apt-get update -qq && apt-get install -y -qq python3-venv
        "$python" -m venv "$1"
    }
fi
"$1/bin/pip" install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
