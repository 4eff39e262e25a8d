#!/bin/sh
# Sets up a virtual environment from lock files, once.
#
#   tools/venv.sh DIR LOCK...
#
# The stamp DIR/.complete is written last and holds what the environment was made from. The same
# inputs: nothing to do. Other inputs: installed on top. No stamp (never made, or interrupted), or
# a folder that was moved: made anew.
set -eu

dir=$1
shift
python=${PYTHON:-}

usable() { # a Python of 3.11 or newer that can make virtual environments
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

if [ -n "$python" ]; then
    usable "$python" || {
        echo "PYTHON is '$python'; expected a Python 3.11 or newer with the venv module." >&2
        exit 1
    }
fi

want="$(cat "$@" pyproject.toml tools/venv.sh | cksum) $PWD"
have=$(cat "$dir/.complete" 2>/dev/null || true)
if [ "$want" = "$have" ] && "$dir/bin/python" -c '' 2>/dev/null; then
    exit 0
fi

case $have in
    *" $PWD") echo "updating $dir ..." ;;
    *)
        if [ -z "$python" ]; then
            for candidate in python3.11 python3.12 python3.13 python3 python; do
                if usable "$candidate"; then
                    python=$candidate
                    break
                fi
            done
        fi
        if [ -z "$python" ]; then
            {
                echo "No usable Python found: python3.11, python3.12, python3.13 and python3 were tried."
                echo "Expected Python 3.11 or newer with the venv module (on Debian and Ubuntu, the"
                echo "package python3-venv). If it is elsewhere: make PYTHON=/path/to/python3.11 ..."
            } >&2
            exit 1
        fi
        echo "setting up $dir with $("$python" --version) (about a minute) ..."
        "$python" -m venv --clear "$dir"
        ;;
esac
rm -f "$dir/.complete"

pip() { "$dir/bin/python" -m pip --disable-pip-version-check "$@"; }

for lock in "$@"; do
    set -- "$@" -r "$lock"
    shift
done
echo "  installing the locked packages ..."
pip install -qq "$@"
echo "  installing eniac ..."
pip install -qq --no-deps -e .
printf '%s' "$want" >"$dir/.complete"
echo "  $dir is ready"
