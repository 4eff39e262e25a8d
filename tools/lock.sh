#!/bin/sh
# Writes requirements.lock and benchmarks/requirements.lock: the newest versions that
# pyproject.toml allows, as they install on the oldest Python we support (so that newer ones find
# them too). No addresses, no paths, no hashes.
set -eu

python=${PYTHON:-python3.11}
"$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || {
    echo "The lock is made with Python 3.11, the oldest supported; '$python' is another." >&2
    exit 1
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

pins() { # NAME==VERSION lines only; local versions (+cpu) belong to one machine's wheels
    "$scratch/venv/bin/python" -m pip freeze --all --exclude-editable --exclude pip --exclude eniac |
        sed -E -e '/^[A-Za-z0-9._-]+==[^@ ]+$/!d' -e '/:\/\//d' -e 's/\+.*$//' | LC_ALL=C sort -f
}

echo "resolving the runtime, dev and docs packages ..."
"$python" -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip install -qq --upgrade --upgrade-strategy eager '.[dev,docs]'
pins >"$scratch/dev"
echo "resolving what the benchmarks add ..."
"$scratch/venv/bin/python" -m pip install -qq -c "$scratch/dev" '.[bench]'
pins >"$scratch/bench"

{
    echo "# What eniac and its \`dev\` and \`docs\` extras need, in exact versions, for Python 3.11 and newer."
    echo "# Regenerate with \`make lock\` (needs Python 3.11)."
    cat "$scratch/dev"
} >requirements.lock
{
    echo "# What the \`bench\` extra adds to ../requirements.lock. Regenerate with \`make lock\`."
    LC_ALL=C sort "$scratch/dev" >"$scratch/dev.sorted"
    LC_ALL=C sort "$scratch/bench" | LC_ALL=C comm -13 "$scratch/dev.sorted" - | LC_ALL=C sort -f
} >benchmarks/requirements.lock
echo "written: requirements.lock, benchmarks/requirements.lock"
