#!/bin/sh
# Registers, static shared memory, local memory and spills of every kernel of gpu/kernels, as a table in Markdown.
#
#   sh bench/kernel_resources.sh [ARCHITECTURE]     such as sm_90, the default
#
# What a kernel takes of dynamic shared memory is decided at its launch, and not in the table. Needs nvcc (or what NVCC names) and
# c++filt.
set -eu
cd "$(dirname "$0")/.."
architecture=${1:-sm_90}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for source in gpu/kernels/*.cu; do
    "${NVCC:-nvcc}" -std=c++17 -O3 -I. -Iinclude -arch="$architecture" -Xptxas -v -cubin "$source" -o "$work/cubin" 2>"$work/log" ||
        { cat "$work/log" >&2; exit 1; }
    awk -v source="${source##*/}" -v tab='\t' '
        /Compiling entry function/ { split($0, part, "\047"); name = part[2] }
        /bytes stack frame/ { stack = $1; stores = $5; loads = $9 }
        /Used [0-9]+ registers/ {
            shared = 0
            for (i = 2; i <= NF; i++) {
                if ($i == "registers,") registers = $(i - 1)
                if ($i ~ /^smem/) shared = $(i - 2)
            }
            print name tab source tab registers tab shared tab stack tab stores + loads
        }' "$work/log"
done >"$work/kernels"
cut -f 1 "$work/kernels" | c++filt | sed 's/^void //; s/(anonymous namespace):://g; s/>(.*/>/; t; s/(.*//' >"$work/names"
echo "| kernel | file | registers | shared, bytes | local, bytes | spills, bytes |"
echo "|---|---|---|---|---|---|"
cut -f 2- "$work/kernels" | paste "$work/names" - | sort | awk -F '\t' '{ printf "| `%s` | %s | %s | %s | %s | %s |\n", $1, $2, $3, $4, $5, $6 }'
