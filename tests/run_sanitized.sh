#!/bin/sh
# run_sanitized.sh LOGS PROGRAM: runs a test program with the reports of the sanitizers in files. Any report is a
# failure, whatever the program says: leaks are found when a process has already told its result.
set -u
logs=$1/$(basename "$2").$$
shift
rm -rf "$logs"
mkdir -p "$logs"
ASAN_OPTIONS="${ASAN_OPTIONS:-}:log_path=$logs/asan:exitcode=99" \
UBSAN_OPTIONS="${UBSAN_OPTIONS:-}:log_path=$logs/ubsan:print_stacktrace=1" "$@"
code=$?
if [ -n "$(ls "$logs")" ]; then
    cat "$logs"/*
    echo "FAILED: the sanitizers had something to report"
    exit 1
fi
rmdir "$logs"
exit $code
