#!/bin/sh
# Measures this library beside its peers: torch.fft, scipy.fft, plain C on FFTW, a naive S4 layer in torch, and the
# published S4 module where its path is given. docs/performance.md says what every row means.
#
#   sh bench/peers/run.sh [--env DIR] [--index URL] [options] OUTDIR        (--help lists the options)
#
# Python's packages go into an environment of their own outside of the source tree; nothing of them is needed to build,
# test or use the library. --index URL: a package index for torch only (its project has one with smaller, CPU-only
# wheels). What cannot be installed is said, and its rows are left out.
set -eu
export PYTHONDONTWRITEBYTECODE=1 # nothing is written into the source tree
here=$(cd "$(dirname "$0")" && pwd)
env=${XDG_CACHE_HOME:-$HOME/.cache}/s4-peers
index=""
count=$#
while [ "$count" -gt 0 ]; do # takes out its own options and leaves the others in order
    case $1 in
        --env | --index)
            [ "$count" -gt 1 ] || { echo "peers: $1 needs a value" >&2; exit 2; }
            if [ "$1" = --env ]; then env=$2; else index=$2; fi
            shift 2
            count=$((count - 2))
            continue
            ;;
    esac
    set -- "$@" "$1"
    shift
    count=$((count - 1))
done

say() { echo "peers: $*" >&2; }

case " $* " in *" --help "* | *" -h "*) exec "${PYTHON:-python3}" "$here/peers.py" --help ;; esac

[ -x "$env/bin/python" ] || "${PYTHON:-python3}" -m venv "$env" || { say "no virtual environment in $env"; exit 1; }
python=$env/bin/python
install() { "$python" -m pip install --quiet --disable-pip-version-check "$@" >&2; }
lacks() { "$python" "$here/requirements.py" "$here/requirements.txt" "$@"; }

if [ -n "$(lacks)" ]; then
    say "installing $(lacks | tr '\n' ' ')into $env: torch is large, this takes minutes"
    if [ -n "$index" ] && [ -n "$(lacks torch)" ]; then
        install --index-url "$index" "$(lacks torch)" || say "torch is not to be had from $index"
    fi
    lacks | while read -r package; do
        install "$package" </dev/null || say "$package cannot be installed here: its rows are left out"
    done
fi
"$python" -c "import numpy" || { say "without numpy there is nothing to measure with"; exit 1; }

fftw=""
flags=$(pkg-config --cflags --libs fftw3f) || flags=-lfftw3f
# shellcheck disable=SC2086
if ${CC:-cc} -O3 -march=native -fopenmp "$here/fftw_row.c" -o "$env/fftw_row" $flags; then
    fftw=$env/fftw_row
else
    say "fftw_row cannot be built: its rows are left out"
fi

exec "$python" "$here/peers.py" ${fftw:+--fftw "$fftw"} "$@"
