#!/bin/sh
# Make the virtual environment at $1 with the newest Python >= 3.11 here, then let setup_venv.py fill it.
set -eu
venv=${1:-.venv}

usable() { # a pyenv shim may exist and still not run
    "$1" -c 'import sys; sys.exit(not ((3, 11) <= sys.version_info[:2] <= (3, 14)))' >/dev/null 2>&1
}

if ! usable "$venv/bin/python"; then
    python=
    for candidate in ${PYTHON:-} python3.14 python3.13 python3.12 python3.11 python3; do
        if command -v "$candidate" >/dev/null 2>&1 && usable "$candidate"; then
            python=$candidate
            break
        fi
    done
    if [ -z "$python" ]; then
        echo "Penstock needs Python 3.11, 3.12, 3.13 or 3.14; none was found. Name one with: make PYTHON=/path/to/python3 ..." >&2
        exit 1
    fi
    echo "making $venv with $("$python" --version)" >&2
    if ! "$python" -m venv "$venv"; then
        echo "python -m venv failed; on Debian and Ubuntu: apt install python3-venv" >&2
        exit 1
    fi
fi
exec "$venv/bin/python" scripts/setup_venv.py "$venv"
