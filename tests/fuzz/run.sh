#!/bin/sh
# run.sh MINUTES [READER]...: fuzzes every reader, or those named, for so many minutes, from the kept corpus. Fails on a
# crash, a leak, a timeout, an undefined operation or an allocation out of proportion. New inputs and what broke stay in
# the working folder, S4_FUZZ_FOLDER (default: build-fuzz here); the kept corpus is only read.
# Needs clang with libFuzzer (Debian: clang libclang-rt-14-dev).
set -eu
[ $# -ge 1 ] || { echo "usage: $0 MINUTES [READER]..." >&2; exit 2; }
minutes=$1
shift
[ "$minutes" -ge 1 ] || { echo "$0: '$minutes' is no number of minutes" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=${S4_FUZZ_FOLDER:-$root/build-fuzz}
readers=${*:-npy wav csv safetensors layer}
mkdir -p "$work"

# The readers and what they stand on: no plan, no place.
sources=""
for name in array array_write atomic_file csv decimal errors layer layer_file layer_file_names layer_file_save \
    layer_file_settings names npy options safetensors safetensors_write wav; do
    sources="$sources $root/s4/$name.c"
done
# Files are written and read again and again: in memory where that is possible.
files=$(mktemp -d /dev/shm/s4-fuzz-XXXXXX 2>/dev/null || mktemp -d)
trap 'rm -rf "$files"' EXIT
trap 'exit 1' HUP INT TERM
failed=""
for reader in $readers; do
    # shellcheck disable=SC2086,SC2046
    ${CC:-clang} -std=c11 -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer,address,undefined \
        -fno-sanitize-recover=undefined -DS4_FUZZ_READER="\"$reader\"" -I"$root" -I"$root/include" -I"$here" \
        "$here/target.c" "$here/readers.c" $sources $(pkg-config --cflags --libs libcjson) -lpthread -lm \
        -o "$work/fuzz_$reader"
    mkdir -p "$work/corpus/$reader" "$work/broken"
    echo "$reader: $minutes minutes"
    TMPDIR=$files "$work/fuzz_$reader" -max_total_time=$((minutes * 60)) -max_len=4096 -timeout=10 -rss_limit_mb=2048 \
        -malloc_limit_mb=64 -print_final_stats=1 -artifact_prefix="$work/broken/$reader-" \
        $([ -f "$here/$reader.dict" ] && echo "-dict=$here/$reader.dict") \
        "$work/corpus/$reader" "$here/corpus/$reader" >"$work/$reader.log" 2>&1 || failed="$failed $reader"
    grep -E '^(stat::|Done|SUMMARY|BROKEN|==)' "$work/$reader.log" || true
    grep -E ' cov: ' "$work/$reader.log" | tail -n 1 || true
done
[ -z "$failed" ] || { echo "FAILED:$failed; see $work" >&2; exit 1; }
