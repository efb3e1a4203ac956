#!/bin/sh
# What a machine with a GPU says of this build, in one run of under six minutes.
#
#   sh bench/device_report.sh OUTDIR [--build DIR] [--small]
#
# Writes OUTDIR/report.txt (to read), OUTDIR/report.json (the same) and OUTDIR/log.txt (all that the programs printed).
# Every part runs under a time limit of its own, and none stops the others. Needs a shell, awk and coreutils.
# --small: small sizes; taken by itself where the GPU is an emulation (S4_GPU_MODULE), whose times are no speed.
# Exit code: 0 fine, 1 something failed, 2 usage, 4 no GPU.
set -u

usage() { echo "usage: device_report.sh OUTDIR [--build DIR] [--small]" >&2; exit 2; }
self=$(cd "$(dirname "$0")" && pwd)
out='' build='' small=''
while [ $# -gt 0 ]; do
    case $1 in
        --build) [ $# -gt 1 ] || usage; build=$2; shift ;;
        --small) small=1 ;;
        -*) usage ;;
        *) [ -z "$out" ] || usage; out=$1 ;;
    esac
    shift
done
[ -n "$out" ] || usage
if [ -z "$build" ]; then # the script lies in the folder of the build, or in that of the source
    build=$self
    [ -x "$build/bin/s4" ] || build=$self/../build-device
fi
build=$(cd "$build" && pwd) || exit 2
s4=$build/bin/s4
[ -x "$s4" ] || { echo "device_report.sh: no $s4" >&2; exit 2; }
golden=$build/golden
[ -d "$golden" ] || golden=$self/../tests/golden
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
: >"$out/log.txt"

now() { date +%s; }
began=$(now)
deadline=$((began + 345))

# limit SECONDS: those, or what is left.
limit() {
    left=$((deadline - $(now)))
    [ "$left" -ge 2 ] || left=2
    if [ "$1" -lt "$left" ]; then echo "$1"; else echo "$left"; fi
}

# part NAME SECONDS COMMAND...: its output to $work/NAME, a line for the report to $work/parts.
part() {
    name=$1 seconds=$(limit "$2")
    shift 2
    part_began=$(now)
    timeout -k 5 "$seconds" "$@" >"$work/$name" 2>"$work/$name.errors"
    code=$?
    took=$(($(now) - part_began))
    case $code in 0) state=ok ;; 124 | 137) state="stopped after $seconds s" ;; *) state="exit code $code" ;; esac
    printf '%s\t%s\t%s\t%s\n' "$name" "$code" "$took" "$state" >>"$work/parts"
    { echo "== $name: $* ($state, $took s)"; cat "$work/$name" "$work/$name.errors"; echo; } >>"$out/log.txt"
    echo "$name: $state, $took s"
}

# ---- cuFFT, where the loader does not find it ---------------------------------------------------------------------------
if [ -z "${S4_GPU_MODULE:-}" ] && [ -f "$build/lib/libs4_gpu.so" ]; then
    for name in $(ldd "$build/lib/libs4_gpu.so" 2>/dev/null | awk '/not found/ { print $1 }'); do
        found=$(find /usr/local /opt /usr/lib -maxdepth 9 -name "$name" 2>/dev/null | head -n 1)
        echo "$name: ${found:-nowhere}" | tee -a "$out/log.txt"
        [ -z "$found" ] || LD_LIBRARY_PATH=${found%/*}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    done
    [ -z "${LD_LIBRARY_PATH:-}" ] || export LD_LIBRARY_PATH
fi

# ---- what is there ------------------------------------------------------------------------------------------------------
part info 20 "$s4" info --json
gpu_says() { awk -v key="\"$1\":" '$1 == key { sub(/,$/, "", $2); print $2; exit }' "$work/info"; }
gpu=$(gpu_says available) emulated=$(gpu_says emulated)
floors=$build/bin/s4_floors
floors_module=${S4_GPU_MODULE:-}
if [ "$emulated" = true ]; then # s4_floors is linked with one emulated module, and can use no other
    small=1 floors=$build/emulated/s4_floors floors_module=$build/emulated/libs4_gpu.so
    [ -f "$floors_module" ] || floors_module=$build/lib/libs4_gpu.so
fi

[ "$gpu" = true ] || small=1 # nothing to learn of speed
if [ -n "$small" ]; then # B H L
    shapes="2,3,64 1,2,300" d_state=8 repeats=1 tests='convolution split
plan_set gpu' small=--small
else
    shapes="16,512,4096 16,512,16384 4,256,262144 1,256,4194304" d_state=64 repeats=3
    tests=$(awk '$2 == "split" { print }' "$build/bin/tests_of_the_gpu.txt"
        awk '$2 == "split" { print $1, "gpu" }' "$build/bin/tests_of_the_gpu.txt"
        awk '$2 != "split" && $2 != "gpu" { print }' "$build/bin/tests_of_the_gpu.txt")
fi
cpu_samples_most=300000000 # of B H L: more take the CPU longer than a report should

# ---- the self-test, and the golden cases ----------------------------------------------------------------------------------
for place in split gpu; do part "check_$place" 30 "$s4" check --placement $place; done
for place in split gpu; do part "golden_$place" 30 "$s4" check --placement $place --golden "$golden"; done

# ---- samples in device memory, beside copies ------------------------------------------------------------------------------
for shape in $shapes; do
    IFS=, read -r B H L <<SHAPE
$shape
SHAPE
    # shellcheck disable=SC2086
    [ ! -x "$floors" ] || part "floors_${B}_${H}_$L" 40 env S4_GPU_MODULE="$floors_module" "$floors" $small "$B" "$H" "$d_state" "$L" split gpu split:chunked
done

# ---- samples in host memory -----------------------------------------------------------------------------------------------
for shape in $shapes; do
    IFS=, read -r B H L <<SHAPE
$shape
SHAPE
    places="--placement split --placement gpu"
    [ $((B * H * L)) -gt $cpu_samples_most ] || places="$places --placement cpu"
    # shellcheck disable=SC2086
    part "bench_${B}_${H}_$L" 60 "$s4" bench --json --direction training --dtype f32 --d-state $d_state \
        --repeats $repeats --batch "$B" --d-model "$H" --length "$L" $places
done

# ---- the tests ------------------------------------------------------------------------------------------------------------
# one_test TOPIC PLACEMENT: "TOPIC PLACEMENT code seconds last-line" into a file of its own, unless there is no time left.
cat >"$work/one_test" <<'TEST'
left=$((DEADLINE - $(date +%s)))
[ "$left" -ge 3 ] || exit 0
[ "$left" -le 60 ] || left=60
began=$(date +%s)
S4_TEST_PLACEMENT=$2 timeout -k 5 "$left" "$BUILD/bin/test_$1" -j4 >"$WORK/test_$1_$2" 2>&1
code=$?
printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$2" $code $(($(date +%s) - began)) \
    "$(grep -E '^[0-9]+ passed, ' "$WORK/test_$1_$2" | tail -n 1)" >"$WORK/result_$1_$2"
TEST
jobs=$(($(nproc) / 4))
[ $jobs -ge 1 ] || jobs=1
echo "$tests" | S4_TEST_GOLDEN=$golden OMP_WAIT_POLICY=passive BUILD=$build WORK=$work DEADLINE=$deadline \
    xargs -P $jobs -n 2 sh "$work/one_test"
echo "$tests" | while read -r topic place; do
    cat "$work/result_${topic}_$place" 2>/dev/null || printf '%s\t%s\t-1\t0\tno time left\n' "$topic" "$place"
done >"$work/tests"
echo "tests: $(awk -F '\t' '$3 == 0 || $3 == 77 { fine++ } END { printf "%d of %d fine", fine, NR }' "$work/tests")"
for output in "$work"/test_*; do # the end of what each printed is enough
    [ -f "$output" ] && { echo "== ${output##*/}"; grep -v '^SKIPPED\|^\[SKIP' "$output" | tail -n 15; echo; }
done >>"$out/log.txt"

# ---- the report -----------------------------------------------------------------------------------------------------------
# Lines of tab-separated words, "kind\tname=value...", from which both files are made.
{
    awk -F '\t' '{ printf "part\tname=%s\tcode=%s\tseconds=%s\tstate=%s\n", $1, $2, $3, $4 }' "$work/parts"
    for name in check_split check_gpu golden_split golden_gpu; do
        awk -v name=$name '
            $1 == "FAIL" { failures = failures (failures == "" ? "" : "; ") $0 }
            / passed, .* failed, .* skipped$/ { passed = $1; failed = $3; skipped = $5; seen = 1 }
            END {
                if (!seen) passed = failed = skipped = -1
                printf "check\tname=%s\tpassed=%s\tfailed=%s\tskipped=%s\tfailures=%s\n", name, passed, failed, skipped,
                    failures
            }' "$work/$name"
    done
    awk -F '\t' '{ split($5, n, " ")
        state = $3 == 0 ? "passed" : $3 == 77 ? "skipped" : $3 == 124 || $3 == 137 ? "too slow" : $3 < 0 ? "not run" : "failed"
        printf "test\tname=%s\tplacement=%s\tstate=%s\tpassed=%d\tfailed=%d\tskipped=%d\tseconds=%s\n", $1, $2, state,
            n[1], n[3], n[5], $4 }' "$work/tests"
    for shape in $shapes; do
        shape=$(echo "$shape" | tr , _)
        output=$work/floors_$shape
        [ -f "$output" ] || continue
        awk -v shape="$shape" '{ # the words after "why=" belong together
            at = index($0, " why="); why = ""
            if (at) { why = "\twhy=" substr($0, at + 5); $0 = substr($0, 1, at - 1) }
            kind = $1 == "copy" ? "copy" : "floor"
            if (kind == "copy") line = "\tshape=" shape; else line = ""
            for (i = 2; i <= NF; i++) line = line "\t" $i
            print kind line why }' "$output"
    done
    for shape in $shapes; do
        shape=$(echo "$shape" | tr , _)
        output=$work/bench_$shape
        copies=$(awk '$1 == "copy"' "$work/floors_$shape" 2>/dev/null)
        awk -v shape="$shape" -v copies="$copies" -v emulated="$emulated" '
            function end_row() {
                if (!("placement" in v)) return
                split(shape, size, "_")
                samples = size[1] * size[2] * size[3]
                work = v["refresh_ns"] + v["forward_ns"] + v["backward_ns"]
                down = v["moved_to_device"] / (rate["to_device_gb_s"] + 1e-30)
                up = v["moved_to_host"] / (rate["to_host_gb_s"] + 1e-30)
                slower = down > up ? down : up
                times = ""
                if (v["launches"] == "null") times = "-"
                else if (emulated == "true") times = "emulated"
                ratio = times
                if (times == "") ratio = "-"
                if (times == "" && slower > 0 && rate["to_host_gb_s"] > 0) ratio = sprintf("%.2f", work / slower)
                if (v["max_error"] != "null") v["max_error"] = sprintf("%.2e", v["max_error"])
                printf "bench\tplacement=%s\tbatch=%s\td_model=%s\tlength=%s", v["placement"], size[1], size[2], size[3]
                for (i = 1; i <= count; i++)
                    printf "\t%s_us=%s", phase[i], times != "" ? times : sprintf("%.1f", v[phase[i] "_ns"] / 1000)
                printf "\tforward_ns_a_sample=%s", times != "" ? times : sprintf("%.4f", v["forward_ns"] / samples)
                printf "\ttransfer_ratio=%s\tmax_error=%s\tdevice_planned=%s\tdevice_measured=%s\tstate=%s\n", ratio,
                    v["max_error"], v["device_planned"], v["device_measured"], v["place_state"]
                split("", v)
            }
            BEGIN {
                count = split("setup refresh forward backward step", phase, " ")
                n = split(copies, word, " ")
                for (i = 2; i <= n; i++) { split(word[i], pair, "="); rate[pair[1]] = pair[2] + 0 }
            }
            /^[ \t]*"/ {
                key = $0; sub(/^[ \t]*"/, "", key); sub(/".*/, "", key)
                value = $0; sub(/^[^:]*:[ \t]*/, "", value); sub(/,$/, "", value); gsub(/^"|"$/, "", value)
                v[key] = value
            }
            /}/ { end_row() }' "$output"
    done
} >"$work/lines"

failed=$(awk -F '\t' '
    function has(word, i) { for (i = 2; i <= NF; i++) if ($i == word) return 1; return 0 }
    $1 == "check" && !has("failed=0") { n++ }
    $1 == "test" && !has("state=passed") && !has("state=skipped") { n++ }
    $1 == "floor" && has("state=failed") { n++ }
    $1 == "part" && !has("code=0") && $2 !~ /check_|golden_/ { n++ }
    END { print n + 0 }' "$work/lines")
total=$(($(now) - began))

# JSON: the words of the lines as they are, numbers where they are numbers.
{
    printf '{"seconds": %s, "failed": %s, "small": %s,\n"info": ' $total "$failed" "$([ -n "$small" ] && echo true || echo false)"
    if [ -s "$work/info" ]; then cat "$work/info"; else echo null; fi
    for kind in part check test copy floor bench; do
        printf ',\n"%s": [' $kind
        awk -F '\t' -v kind=$kind '
            function text(s) { gsub(/\\/, "\\\\", s); gsub(/"/, "\\\"", s); gsub(/[[:cntrl:]]/, " ", s); return "\"" s "\"" }
            $1 == kind {
                printf "%s\n  {", (count++ ? "," : "")
                for (i = 2; i <= NF; i++) {
                    at = index($i, "="); key = substr($i, 1, at - 1); value = substr($i, at + 1)
                    if (value !~ /^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$/ || key == "name" || key == "shape") value = text(value)
                    printf "%s%s: %s", (i > 2 ? ", " : ""), text(key), value
                }
                printf "}"
            }' "$work/lines"
        printf ']'
    done
    printf '}\n'
} >"$out/report.json"

# table KIND TITLE COLUMN...: the words of those names, one line each.
table() {
    kind=$1 title=$2
    shift 2
    echo
    echo "$title"
    awk -F '\t' -v kind="$kind" -v columns="$*" '
        BEGIN { count = split(columns, column, " "); for (c = 1; c <= count; c++) { cell[0, c] = column[c]; width[c] = length(column[c]) } }
        $1 == kind {
            rows++
            for (c = 1; c <= count; c++) {
                value = "-"
                for (i = 2; i <= NF; i++) if (index($i, column[c] "=") == 1) value = substr($i, length(column[c]) + 2)
                cell[rows, c] = value
                if (length(value) > width[c]) width[c] = length(value)
            }
        }
        END {
            for (r = 0; r <= rows; r++) {
                line = ""
                for (c = 1; c <= count; c++) line = line sprintf(c == 1 || c == count ? "%-*s  " : "%*s  ", width[c], cell[r, c])
                sub(/ +$/, "", line)
                print "  " line
            }
        }' "$work/lines"
}
{
    "$s4" info 2>&1
    [ "$emulated" != true ] || echo "THE GPU IS AN EMULATION: values, not speed."
    table floor "Samples in device memory, microseconds, and as multiples of a copy's time (8 B H L bytes forward, 12 backward)" \
        placement batch d_model length refresh_us forward_us forward_floor_us forward_ratio backward_du_us backward_us \
        backward_floor_us backward_ratio error state
    table copy "Copies beside them, GB/s" shape device_gb_s to_device_gb_s to_host_gb_s
    table floor "Work areas of cuFFT, bytes: planned, and whether cuFFT is content with them" \
        placement batch d_model length planned_kernel_fft_work planned_convolve_fft_work device_peak prepare why
    table bench "Samples in host memory: s4 bench, microseconds; the ratio is to the slower direction of the transfers" \
        placement batch d_model length setup_us refresh_us forward_us backward_us step_us forward_ns_a_sample \
        transfer_ratio max_error state
    table check "Checks" name passed failed skipped failures
    table test "Tests" name placement passed failed skipped seconds state
    table part "Parts" name seconds state
    echo
    echo "$failed failed; $total s"
} >"$out/report.txt"
echo "report complete: $out/report.txt; $failed failed; $total s"
[ "$gpu" = true ] || exit 4
[ "$failed" = 0 ]
