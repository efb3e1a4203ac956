#!/bin/sh
# Whether auto takes the faster of fft and chunked, over a grid of problems.
#
#   sh bench/algorithms.sh [--build DIR] [-o FILE.csv] [KEY=LIST]...   measures, then sums up
#   sh bench/algorithms.sh [--build DIR] --again FILE.csv              sums up times measured before, with today's choices
#
# KEY=LIST narrows the grid: mode=dplr,diag dtype=f32,f64 direction=forward,training state=4,16,64,256
# length=64,...,1048576 batch=1,4,16,64. All of it takes some five minutes of an idle machine. Builds and runs the program
# `algorithms` of the build folder: a line of CSV a problem; times are nanoseconds of CPU time of one thread, the least of some
# runs. `ratio` is the time of what auto takes over that of the faster, refresh + forward (+ backward); the target is at
# most 1.15. Exit code: 0 fine, 1 a program failed, 2 usage. Needs a shell, awk, sort and a configured build folder.
#
# To fit the prices of s4/price.c again: measure all of the grid on an idle machine (-o FILE.csv), and compare each column with
# the counts that its prices stand by, where that term weighs most:
#   fft_forward                 fft, row: length 1024 to 65536; unit: where the time of short rows steps; far: length 1048576
#   fft_refresh                 cauchy: dplr, state 256, long; kernel_fft: dplr, state 4, long; vandermonde: diag, state 256,
#                               long; power, *_mode, *_channel: length 64
#   fft_backward                gradient_fft: batch 64; the second of each pair of prices: batch 1
#   chunked_forward             product: long, state 64; sample, chunk: state 4; element: dplr, state 256, batch 64
#   chunked_refresh             square: dplr training, state 256; advance, chunk_*: diag; undo: dplr, forward less training
#   chunked_backward            the second of each pair: batch 1, length 1024
# Then edit, build, and look at what --again FILE.csv says: it measures nothing, and leaves out
# rows of another chunk length than the library takes now.
set -eu

usage() { sed -n '2,/^#$/p' "$0" | sed 's/^# \{0,1\}//' >&2; exit 2; }
build=$(dirname "$0")/../build-no-cuda out='' again=''
while [ $# -gt 0 ]; do
    case $1 in
        --build) [ $# -gt 1 ] || usage; build=$2; shift 2 ;;
        -o) [ $# -gt 1 ] || usage; out=$2; shift 2 ;;
        --again) [ $# -gt 1 ] || usage; again=$2; shift 2 ;;
        *=*) break ;;
        *) usage ;;
    esac
done
# LAPACK's own threads would be measured as waiting.
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
cmake --build "$build" --target algorithms >&2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
if [ -n "$again" ]; then
    "$build/bin/algorithms" again <"$again" >"$work/rows"
else
    "$build/bin/algorithms" "$@" >"$work/rows"
fi
[ -z "$out" ] || cp "$work/rows" "$out"

awk -F, '
    NR == 1 { next }
    {
        key = $1 " " $2 " " $3
        cells[key]++; all++
        if ($16 > 1.15) { over[key]++; all_over++ }
        if ($16 > worst[key]) worst[key] = $16
        sum += $16
    }
    END {
        for (key in cells)
            printf "%-20s %4d cells, %5.1f %% over 1.15, worst %.2f\n", key, cells[key], 100 * over[key] / cells[key], worst[key]
        if (all) printf "%-20s %4d cells, %5.1f %% over 1.15, mean %.3f\n", "~ all", all, 100 * all_over / all, sum / all
    }' "$work/rows" | sort | sed 's/^~ //'
echo "worst:"
sed 1d "$work/rows" | sort -t, -k16,16nr | head -n 10 |
    awk -F, '$16 > 1.01 { printf "  %.2f  %s %s %s N=%s L=%s B=%s: takes %s\n", $16, $1, $2, $3, $4, $5, $6, $15 }'
