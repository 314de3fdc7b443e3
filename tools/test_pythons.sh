#!/bin/sh
# Run all tests, or those given as arguments, on every installed Python from 3.11 to 3.13, each in a separate
# environment without the packages that only read data sets.
set -eu
cd "$(dirname "$0")/.."
found=0
for version in 3.11 3.12 3.13; do
    for candidate in "python$version" "$HOME/.pyenv/versions/$version".*/bin/python; do
        if "$candidate" -c 'import sys' 2>/dev/null; then
            echo "== $("$candidate" --version)"
            if [ $# -gt 0 ]; then
                make --no-print-directory TEST_GROUPS=test ".venv-$version/.tested" PYTHON="$candidate" VENV=".venv-$version"
                ".venv-$version/bin/pytest" -n 2 --dist worksteal "$@"
            else
                make --no-print-directory test TEST_GROUPS=test PYTHON="$candidate" VENV=".venv-$version"
            fi
            found=$((found + 1))
            break
        fi
    done
done
[ "$found" -gt 0 ] || { echo "expected a Python from 3.11 to 3.13, found none" >&2; exit 1; }
